"""Discovery of connectors: `connectors/<source_type>.py` in this tree, then the entry-point group `cortex.connectors`."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import connectors
from cortex.errors import InputError, Misconfigured
from cortex.ports.connectors import Connector, SourceConfig

ENTRY_POINT_GROUP = "cortex.connectors"
VERBS = ("fetch", "normalize", "acls", "cursor", "webhook")


def build_connector(config: SourceConfig) -> Connector:
    """Build the connector of a configured source; raises InputError for an unknown type."""
    return connector_class(config.source_type)(config)


def connector_class(source_type: str) -> type[Connector]:
    """Find the class of one source type, importing nothing else; raises InputError when there is none."""
    if source_type in _module_names():
        found = _class_in(import_module(f"connectors.{source_type}"))
        if found is not None:
            return found
    for entry in entry_points(group=ENTRY_POINT_GROUP, name=source_type):
        return _load(entry)
    known = ", ".join(sorted({*_own_types(), *entry_points(group=ENTRY_POINT_GROUP).names}))
    raise InputError(
        f"no connector is called {source_type!r}", code="source.unknown", hint=f"known types: {known}"
    )


def discover() -> dict[str, type[Connector]]:
    """Load every connector, own and installed, keyed and ordered by source type."""
    names = {*_own_types(), *entry_points(group=ENTRY_POINT_GROUP).names}
    return {name: connector_class(name) for name in sorted(names)}


def _module_names() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(connectors.__path__))


def _own_types() -> Iterator[str]:
    for name in sorted(_module_names()):
        if _class_in(import_module(f"connectors.{name}")) is not None:
            yield name


def _class_in(module: ModuleType) -> type[Connector] | None:
    """Return the class that a module named after its source type defines; None for a module of another kind."""
    source_type = module.__name__.rpartition(".")[2]
    for _, candidate in inspect.getmembers(module, inspect.isclass):
        if candidate.__module__ == module.__name__ and getattr(candidate, "source_type", "") == source_type:
            return _checked(candidate, source_type)
    return None


def _load(entry: EntryPoint) -> type[Connector]:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise Misconfigured(
            f"the connector {entry.name} cannot be loaded from {entry.value}: {error}",
            code="source.broken",
            hint="install what it needs, or remove its package",
        ) from error
    return _checked(loaded, entry.name)


def _checked(candidate: type, source_type: str) -> type[Connector]:
    missing = [verb for verb in VERBS if not callable(getattr(candidate, verb, None))]
    if missing or getattr(candidate, "source_type", "") != source_type:
        what = f"lacks {', '.join(missing)}" if missing else f"does not call itself {source_type!r}"
        raise Misconfigured(f"the connector {source_type} {what}", code="source.broken")
    return candidate
