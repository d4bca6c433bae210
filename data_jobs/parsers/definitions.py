"""Definitions in a syntax tree: which node types of the grammars are functions and classes, and how each is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

# Functions, and types without members worth a block of their own; across grammars, whose names agree widely.
# fmt: off
_LEAVES = frozenset([
    "function_definition", "function_declaration", "function_item", "function", "function_statement",
    "function_def", "method", "singleton_method", "method_definition", "method_declaration",
    "constructor_declaration", "generator_function_declaration", "macro_definition", "macro_rules",
    "subroutine", "subroutine_declaration_statement", "fun_decl", "value_definition", "enum_declaration",
    "enum_item", "enum_specifier", "enum_definition", "type_alias_declaration", "type_item", "type_spec",
    "type_alias", "type_definition", "data_type", "struct_definition", "struct_item", "union_item",
    "struct_specifier", "union_specifier", "create_table", "create_function", "create_view",
    "create_procedure", "create_trigger", "create_type", "create_index", "message", "service", "enum",
    "rule_set", "block", "function_signature", "record_declaration", "annotation_type_declaration",
    "delegate_declaration", "property_declaration_with_body", "module_declaration", "function_clause",
])
# fmt: on
# Types and namespaces whose members are definitions themselves.
# fmt: off
_CONTAINERS = frozenset([
    "class_definition", "class_declaration", "class", "abstract_class_declaration", "class_specifier",
    "struct_declaration", "interface_declaration", "trait_item", "trait_definition", "trait_declaration",
    "impl_item", "mod_item", "module", "internal_module", "namespace_definition", "namespace_declaration",
    "object_declaration", "object_definition", "protocol_declaration", "extension_declaration",
    "class_interface", "class_implementation", "contract_declaration", "library_declaration",
])
# fmt: on
# Nodes that only wrap a definition: decorators, exports, templates, lists of statements.
# fmt: off
_WRAPPERS = frozenset([
    "decorated_definition", "export_statement", "template_declaration", "expression_statement",
    "statement", "declarations", "declaration_list", "type_declaration", "definition",
    "type_system_definition", "statement_list", "implementation_definition", "document", "body", "Decl",
    "ambient_declaration", "linkage_specification", "package_declaration_body",
])
# fmt: on
# `const f = () => …` and its kin define a function by assignment.
_ASSIGNMENTS = frozenset({"lexical_declaration", "variable_declaration", "binary_operator", "assignment"})
_FUNCTION_VALUES = frozenset(
    {"arrow_function", "function_expression", "function", "function_definition", "class"}
)
_ATTACHED = frozenset(
    {"comment", "line_comment", "block_comment", "attribute_item", "attribute", "decorator"}
)
_NAME_ENDS = (
    "identifier",
    "_name",
    "name",
    "type_head",
    "object_reference",
    "constant",
    "word",
    "string_lit",
    "FnProto",
)
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Definition:
    """A run of source bytes, half-open, and the dotted symbol it belongs to."""

    start: int
    end: int
    symbol: str


def definitions(root: Any) -> list[Definition]:
    """List the definitions of a file in order; they do not overlap.

    A class with members yields its head, its members, and what follows them. Comments and decorators right above a
    definition belong to it.
    """
    found = list(_below(root, (), 0))
    source: bytes = root.text or b""
    ends = [*(one.start for one in found[1:]), len(source)] if found else []
    return [_with_rest(one, source[one.end : end]) for one, end in zip(found, ends, strict=True)]


def _with_rest(definition: Definition, gap: bytes) -> Definition:
    """Take what follows a definition into it when that is only a closing brace or a semicolon."""
    rest = gap.rstrip()
    return (
        definition
        if not rest or _says_something(rest)
        else replace(definition, end=definition.end + len(rest))
    )


def _says_something(source: bytes) -> bool:
    """Say whether a rest is more than closing words and punctuation."""
    return any(character.isalnum() for character in source.decode(errors="replace").replace("end", ""))


def _below(node: Any, scope: tuple[str, ...], depth: int) -> Iterator[Definition]:
    attached: int | None = None
    last_row = -1
    for child in node.named_children if depth <= _MAX_DEPTH else ():
        end = child.end_point
        is_on_own_line, last_row = child.start_point.row > last_row, end.row if end.column else end.row - 1
        if child.type in _ATTACHED and is_on_own_line:
            attached = child.start_byte if attached is None else attached
            continue
        start = child.start_byte if attached is None else attached
        attached = None
        yield from _of(child, start, scope, depth)


def _of(node: Any, start: int, scope: tuple[str, ...], depth: int) -> Iterator[Definition]:
    """Yield what one node defines; `start` lies before it where comments are attached."""
    inner = _unwrap(node)
    if inner is None:
        if node.type in _WRAPPERS:
            yield from _below(node, scope, depth + 1)
        return
    name = _name(inner)
    path = (*scope, name) if name else scope
    members = list(_members(inner, path, depth)) if inner.type in _CONTAINERS else []
    if not members:
        yield Definition(start, node.end_byte, ".".join(path))
        return
    if start < members[0].start:
        yield Definition(start, members[0].start, ".".join(path))
    yield from members
    rest = inner.text[members[-1].end - inner.start_byte :]
    if _says_something(rest):
        yield Definition(members[-1].end, node.end_byte, ".".join(path))


def _members(node: Any, path: tuple[str, ...], depth: int) -> Iterator[Definition]:
    body = node.child_by_field_name("body")
    if body is None:
        body = next((child for child in node.named_children if "body" in child.type), node)
    yield from _below(body, path, depth + 1)


def _unwrap(node: Any) -> Any | None:
    """Return the one definition that a node is or wraps; None if it is none or wraps several."""
    for _ in range(_MAX_DEPTH):
        if node.type in _LEAVES or node.type in _CONTAINERS:
            return node
        if node.type in _ASSIGNMENTS:
            return node if _assigns_function(node) else None
        if node.type not in _WRAPPERS:
            return None
        inner = [child for child in node.named_children if child.type not in _ATTACHED and _may_define(child)]
        if len(inner) != 1:
            return None
        node = inner[0]
    return None


def _may_define(node: Any) -> bool:
    return node.type in _LEAVES or any(node.type in kinds for kinds in (_CONTAINERS, _WRAPPERS, _ASSIGNMENTS))


def _assigns_function(node: Any) -> bool:
    inner = [node, *node.named_children]
    values = [
        value
        for n in inner
        for field in ("value", "rhs")
        if (value := n.child_by_field_name(field)) is not None
    ]
    return any(value.type in _FUNCTION_VALUES for value in values)


def _name(node: Any) -> str:
    """Name a definition: by its name field, at the end of C's declarators, or by the first child that is a name."""
    receiver = node.child_by_field_name("receiver")  # Go: the type that a method belongs to
    owner = _text(_last_identifier(receiver)) if receiver is not None else ""
    name = _text(_name_node(node))
    return f"{owner}.{name}" if owner and name else name


def _name_node(node: Any) -> Any | None:
    for _ in range(_MAX_DEPTH):
        if node.type.endswith("identifier"):  # also a qualified one, `A::f`
            return node
        found = node.child_by_field_name("name")
        if found is not None:
            return found
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("lhs")
        if inner is None:
            break
        node = inner
    found = node.child_by_field_name("type") or next(
        (child for child in node.named_children if child.type.endswith(_NAME_ENDS)), None
    )
    if found is not None:
        return found
    first = next((child for child in node.named_children if child.named_child_count), None)
    return (
        first.child_by_field_name("name") or first.child_by_field_name("pattern")
        if first is not None
        else None
    )


def _last_identifier(node: Any) -> Any | None:
    found, pending = None, [node]
    while pending:
        node = pending.pop()
        if node.type == "type_identifier":
            found = node
        pending += node.named_children
    return found


def _text(node: Any | None) -> str:
    text = (node.text or b"").decode(errors="replace") if node is not None else ""
    return " ".join(text.split("(")[0].split("\n")[0].strip("\"' ").split())[:120]
