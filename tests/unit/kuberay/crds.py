"""KubeRay's custom resource definitions as strict JSON Schema: what they do not know is refused, as strict validation does."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

DATA = Path(os.environ.get("CORTEX_EVAL_DATA") or Path(__file__).resolve().parents[4] / "shared" / "data")
CRDS = DATA / "kuberay_crds"
_LISTS = ("allOf", "anyOf", "oneOf")


def faults(document: dict[str, Any]) -> list[str]:
    """List what is wrong with a resource of KubeRay."""
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message[:160]}"
        for error in validator(document["apiVersion"], document["kind"]).iter_errors(document)
    ]


@cache
def validator(api_version: str, kind: str) -> Draft202012Validator:
    """Read the definition of a kind, in one version."""
    text = (CRDS / f"{kind.lower()}s.yaml").read_text(encoding="utf-8")
    definition = yaml.load(text, yaml.CSafeLoader)["spec"]
    (schema,) = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["versions"]
        if (f"{definition['group']}/{version['name']}", definition["names"]["kind"]) == (api_version, kind)
    ]
    closed = strict(schema)
    closed["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    return Draft202012Validator(closed)


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn a structural schema into JSON Schema that closes every object, unless it keeps what it does not know."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    kept = {
        name: value
        for name, value in schema.items()
        if not name.startswith("x-kubernetes-")
        and name not in ("default", "description", "format", "nullable")
    }
    if "properties" in kept:
        kept["properties"] = {name: strict(each) for name, each in kept["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept.setdefault("additionalProperties", False)
    for name in ("items", "additionalProperties", "not"):
        if isinstance(kept.get(name), dict):
            kept[name] = strict(kept[name])
    for name in filter(kept.__contains__, _LISTS):
        kept[name] = [strict(each) for each in kept[name]]
    return {"anyOf": [kept, {"type": "null"}]} if schema.get("nullable") else kept
