"""Office math (OMML) -> one line of text: `(a)/(b)`, `x^2`, `x_i`, `√(x)`."""

from __future__ import annotations

from typing import Any

from data_jobs.parsers.archive import attribute, child, local

_MAX_DEPTH = 40


def math_text(element: Any, depth: int = 0) -> str:
    """Write a formula linearly; deeper nesting than anyone writes is cut off."""
    if depth > _MAX_DEPTH:
        return ""
    return "".join(_part(part, depth + 1) for part in element)


def _part(part: Any, depth: int) -> str:
    match local(part):
        case "t":
            return part.text or ""
        case "f":
            return f"{_grouped(part, 'num', depth)}/{_grouped(part, 'den', depth)}"
        case "sSup":
            return f"{_inner(part, 'e', depth)}^{_grouped(part, 'sup', depth)}"
        case "sSub":
            return f"{_inner(part, 'e', depth)}_{_grouped(part, 'sub', depth)}"
        case "sSubSup":
            lower, upper = _grouped(part, "sub", depth), _grouped(part, "sup", depth)
            return f"{_inner(part, 'e', depth)}_{lower}^{upper}"
        case "rad":
            return f"{_inner(part, 'deg', depth)}√({_inner(part, 'e', depth)})"
        case "nary":
            sign = child(part, "naryPr", "chr")
            limits = f"_{_grouped(part, 'sub', depth)}^{_grouped(part, 'sup', depth)}"
            return f"{attribute(sign, 'val') if sign is not None else '∫'}{limits} {_inner(part, 'e', depth)}"
        case "d":
            inner = ", ".join(math_text(e, depth) for e in part if local(e) == "e")
            return f"({inner})"
        case "func":
            return f"{_inner(part, 'fName', depth)} {_inner(part, 'e', depth)}"
        case "mr":
            return ", ".join(math_text(e, depth) for e in part if local(e) == "e") + "; "
        case name if name.endswith("Pr"):
            return ""
        case _:
            return math_text(part, depth)


def _inner(part: Any, name: str, depth: int) -> str:
    found = child(part, name)
    return math_text(found, depth) if found is not None else ""


def _grouped(part: Any, name: str, depth: int) -> str:
    text = _inner(part, name, depth)
    return text if len(text) <= 1 or text.isalnum() else f"({text})"
