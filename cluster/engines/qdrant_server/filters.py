"""Filters: from the API's JSON to the engine's conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import qdrant_edge as edge

from cluster.engines.qdrant_server.fields import NUMBER, Fields, as_list
from cluster.engines.qdrant_server.problems import BadRequest
from cluster.engines.qdrant_server.vectors import point_id

_DEPTH = 16  # nested filters deeper than this are refused before they can exhaust the stack
_TEXT_MATCHES = {
    "text": edge.MatchText,
    "text_any": edge.MatchTextAny,
    "phrase": edge.MatchPhrase,
    "prefix": edge.MatchPrefix,
    "substring": edge.MatchSubstring,
}


def read_filter(value: Any, where: str = "filter", depth: int = 0) -> Any:
    """Read a filter, or None when there is none."""
    if value is None:
        return None
    if depth > _DEPTH:
        raise BadRequest(f"{where} is nested more than {_DEPTH} deep")
    with Fields(value, where) as fields:
        clauses = {
            name: [_condition(item, f"{where}.{name}", depth) for item in as_list(fields.take(name))] or None
            for name in ("must", "should", "must_not")
        }
        least = fields.take("min_should")
        return edge.Filter(**clauses, min_should=_min_should(least, where, depth))


def is_empty_filter(value: Any) -> bool:
    """Say whether a filter selects everything because it holds no condition, at any depth."""
    if not isinstance(value, dict) or value.keys() - {"must", "should", "must_not", "min_should"}:
        return False
    return all(is_empty_filter(item) for clause in value.values() for item in as_list(clause))


def _min_should(value: Any, where: str, depth: int) -> Any:
    if value is None:
        return None
    with Fields(value, f"{where}.min_should") as fields:
        conditions = [_condition(item, fields.where, depth) for item in fields.need("conditions", list)]
        return edge.MinShould(conditions, fields.need("min_count", int))


def _condition(value: Any, where: str, depth: int) -> Any:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must hold objects")
    if value.keys() & {"must", "should", "must_not", "min_should"}:
        return read_filter(value, where, depth + 1)
    with Fields(value, where) as fields:
        if "has_id" in fields:
            return edge.HasIdCondition({point_id(item) for item in fields.take("has_id", list)})
        if "has_vector" in fields:
            return edge.HasVectorCondition(fields.take("has_vector", str))
        if "nested" in fields:
            return _nested(fields.take("nested"), where, depth)
        for name, kind in (("is_empty", edge.IsEmptyCondition), ("is_null", edge.IsNullCondition)):
            if isinstance(value.get(name), dict):
                with Fields(fields.take(name), f"{where}.{name}") as inner:
                    return kind(inner.need("key", str))
        return _field_condition(fields)


def _nested(value: Any, where: str, depth: int) -> Any:
    with Fields(value, f"{where}.nested") as fields:
        return edge.NestedCondition(
            fields.need("key", str), read_filter(fields.need("filter"), fields.where, depth + 1)
        )


def _field_condition(fields: Fields) -> Any:
    parts = {
        "match": _match(fields.take("match"), fields.where),
        "range": _range(fields.take("range"), fields.where),
        "values_count": _values_count(fields.take("values_count"), fields.where),
        "is_empty": fields.take("is_empty", bool),
        "is_null": fields.take("is_null", bool),
    }
    given = {name: part for name, part in parts.items() if part is not None}
    key = fields.need("key", str)
    if not given and not any(name in fields for name in ("geo_bounding_box", "geo_radius", "geo_polygon")):
        raise BadRequest(f"{fields.where}: the condition on {key} tests nothing")
    return edge.FieldCondition(key=key, **given)


def _match(value: Any, where: str) -> Any:
    if value is None:
        return None
    with Fields(value, f"{where}.match") as fields:
        if "value" in fields:
            return edge.MatchValue(value=_exact(fields.take("value", (str, int, bool))))
        if "any" in fields:
            return edge.MatchAny(any=_alike(fields.take("any", list), fields.where))
        if "except" in fields:
            return edge.MatchExcept(_alike(fields.take("except", list), fields.where))
        for name, kind in _TEXT_MATCHES.items():
            if name in fields:
                return kind(fields.take(name, str))
        raise BadRequest(
            f"{fields.where} must hold value, any, except, text, text_any, phrase, prefix or substring"
        )


def _exact(value: str | int | bool) -> Any:
    """Keep a bool a bool: the binding reads Python's as a whole number, but not NumPy's."""
    return np.bool_(value) if isinstance(value, bool) else value


def _alike(values: list[Any], where: str) -> list[Any]:
    kinds = {type(value) for value in values}
    if kinds - {int, str} or len(kinds) > 1:
        raise BadRequest(f"{where} must be all whole numbers or all strings")
    return values


def _range(value: Any, where: str) -> Any:
    if value is None:
        return None
    with Fields(value, f"{where}.range") as fields:
        bounds = {name: fields.take(name, (*NUMBER, str)) for name in ("gt", "gte", "lt", "lte")}
        kinds = {isinstance(bound, str) for bound in bounds.values() if bound is not None}
        if len(kinds) != 1:
            raise BadRequest(f"{fields.where} needs bounds that are all numbers or all times")
        return edge.RangeDateTime(**bounds) if kinds.pop() else edge.RangeFloat(**bounds)


def _values_count(value: Any, where: str) -> Any:
    if value is None:
        return None
    with Fields(value, f"{where}.values_count") as fields:
        return edge.ValuesCount(**{name: fields.count(name) for name in ("gt", "gte", "lt", "lte")})
