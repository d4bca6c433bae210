"""The command that this folder offers to `cortex`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from cortex.console import command, json_option, write_document
from cortex.errors import Misconfigured
from cortex.settings import settings


@click.command(name="serve-config")
@click.option(
    "--placement", type=click.Choice(["fused", "staged"]), help="Default: the setting CORTEX_PLACEMENT."
)
@click.option(
    "--small", is_flag=True, help="One replica each that reserves no processor, as `cortex up` has."
)
@click.option(
    "--check",
    "checked",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Check a Serve config of yours instead of printing one.",
)
@json_option
@command
def serve_config(placement: str | None, small: bool, checked: Path | None, as_json: bool) -> None:
    """Print the Serve config of a placement, for `serve deploy` and KubeRay.

    It is written from the same blocks that `cortex up` uses (CORTEX_SERVE_CONFIG, or the shipped ones).

    \b
    Example:
      cortex serve-config --placement staged > cortex-staged.yaml
      cortex serve-config --check cortex-staged.yaml
    """
    import yaml

    from serve_apps import config, placements

    home = settings()
    if checked is not None:
        found = config.check(_read(checked), checked.name)
        write_document({"file": checked, "placement": found}) if as_json else click.echo(
            f"{checked.name} deploys the {found} placement, whole"
        )
        return
    chosen = cast(placements.Placement, placement or home.placement)
    document = config.serve_config(home, chosen, small=small)
    write_document(document) if as_json else click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def _read(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Misconfigured(f"{path.name} is not YAML", code="serve_config.invalid") from error
