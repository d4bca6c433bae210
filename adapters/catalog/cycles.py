"""Groups that contain one another: SpiceDB refuses to walk circles, so it is told an equal graph without any.

Groups on one circle have the same members. The first of them by name represents them: it gets the members of all, and
each of the others has the representative's members (Tarjan 1972 finds the circles).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.catalog.mirror import Tuple


def find_cycles(nestings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Map each group on a circle to its representative, given (group, nested group) edges."""
    children: dict[str, list[str]] = {}
    for group, nested in nestings:
        children.setdefault(group, []).append(nested)
    representatives: dict[str, str] = {}
    for component in _components(children):
        if len(component) > 1:
            representatives.update(dict.fromkeys(component, min(component)))
    return representatives


def without_cycles(edges: Iterable[Tuple], representatives: Mapping[str, str]) -> set[Tuple]:
    """Rewrite group edges so that no circle is left and every group keeps its members."""
    rewritten = set()
    for edge in edges:
        group = representatives.get(edge.resource_name, edge.resource_name)
        if edge.resource_name != group:
            rewritten.add(Tuple("group", edge.resource_name, "member", "group", group))
        nested = representatives.get(edge.subject_name, edge.subject_name)
        if not (edge.subject_type == "group" and nested == group):
            rewritten.add(edge._replace(resource_name=group))
    return rewritten


def _components(children: Mapping[str, list[str]]) -> Iterable[list[str]]:
    """Yield the strongly connected components of a graph, without recursion."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in children:
        if root in order:
            continue
        work = [(root, iter(children[root]))]
        order[root] = lowest[root] = len(order)
        path.append(root)
        on_path.add(root)
        while work:
            node, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    yield _cut(path, on_path, node)
            elif child not in order:
                order[child] = lowest[child] = len(order)
                path.append(child)
                on_path.add(child)
                work.append((child, iter(children.get(child, ()))))
            elif child in on_path:
                lowest[node] = min(lowest[node], order[child])


def _cut(path: list[str], on_path: set[str], node: str) -> list[str]:
    """Take the component that ends the path, from `node` on."""
    component: list[str] = []
    while not component or component[-1] != node:
        component.append(path.pop())
    on_path.difference_update(component)
    return component
