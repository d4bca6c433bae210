"""Sources: what the operator names on the command line, described for the connector that will read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.registry import build_connector
from cortex.errors import InputError
from cortex.ids import source_id
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings


@dataclass(frozen=True, slots=True)
class Naming:
    """How the operator names a source: its own name (empty: the place it is loaded from), and its collection."""

    name: str
    collection: str


def files_source(
    given: Settings, path: Path, collection: str = "default", name: str = "", access: str = "posix"
) -> SourceConfig:
    """Describe a folder or file of this machine as a source; raises InputError when it does not exist."""
    root = existing_place(given, path)
    options = {"root": str(root), "access": access}
    return described(given, "files", Naming(name or str(root), collection), options)


def slack_source(
    given: Settings, place: str, naming: Naming, domain: str = "", *, downloads: bool = False
) -> SourceConfig:
    """Describe a Slack export or workspace as a source; raises InputError when it is neither a file, folder nor URL."""
    if place.startswith(("http://", "https://")):
        options = {"url": place}
    else:
        place = str(existing_place(given, Path(place)))
        options = {"root": place, "domain": domain} | ({"download": "yes"} if downloads else {})
    return described(given, "slack", Naming(naming.name or place, naming.collection), options)


def vault_source(given: Settings, path: Path, naming: Naming, access: str = "posix") -> SourceConfig:
    """Describe a vault of notes as a source; raises InputError when its folder does not exist."""
    root = existing_place(given, path)
    named = Naming(naming.name or str(root), naming.collection)
    return described(given, "vault", named, {"root": str(root), "access": access})


def any_source(given: Settings, source_type: str, naming: Naming, options: Mapping[str, str]) -> SourceConfig:
    """Describe a source of any connector by its own options, which are kept in the catalog; raises InputError."""
    if not naming.name:
        raise InputError(
            "a source of this kind needs a name", code="source.invalid", hint="--name 'team cards'"
        )
    config = described(given, source_type, naming, options)
    build_connector(config)  # an unknown type or a missing option is said before anything starts
    return config


def described(given: Settings, source_type: str, naming: Naming, options: Mapping[str, str]) -> SourceConfig:
    """Describe a source of any type; its id comes from tenant, type and name."""
    own_id = source_id(given.tenant_id, source_type, naming.name)
    return SourceConfig(given.tenant_id, own_id, source_type, naming.name, naming.collection, options)


def existing_place(given: Settings, path: Path) -> Path:
    """Resolve a path of this machine; raises InputError when it does not exist, or holds Cortex's own data."""
    root = path.expanduser().resolve()
    if not root.exists():
        raise InputError(
            f"{root} does not exist",
            code="source.unreadable",
            hint="what was loaded from it before stays; check the path, or mount it",
        )
    home = given.home.resolve()
    if root == home or root in home.parents or home in root.parents:
        raise InputError(
            f"{root} holds Cortex's own data",
            code="folder.own",
            hint="load a folder inside of it, or beside it",
        )
    return root
