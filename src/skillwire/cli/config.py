"""``skillwire config``: the settings in force and their sources. It only reads; users edit the files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillwire.adapters.files.credentials import credential_places
from skillwire.adapters.files.settings_file import find_project_file, settings_layers, user_file
from skillwire.cli.advice import closest, did_you_mean
from skillwire.cli.options import CommandGroup
from skillwire.cli.output import Output, Part, bold, dim, output_options
from skillwire.errors import SourceLocation, UsageError
from skillwire.resolver.settings import TracedSetting, trace_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.documents import ConfigCredential, ConfigPathDocument, ConfigSetting


class _Settings(CommandGroup):
    """A group that points users of ``config set`` to the settings file."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called."""
        if args[0] in {"get", "set", "unset", "list", "edit"} and not ctx.resilient_parsing:
            fix = f"skillwire config show shows the settings; to change one, edit {user_file()}."
            raise UsageError("USAGE", f"there is no command {args[0]!a}", fix=fix)
        return super().resolve_command(ctx, args)


@click.group(cls=_Settings)
def command() -> None:
    """Show the settings in force, and the source of each.

    Precedence: command options, the environment, the project's skillwire.toml, your own skillwire.toml. Tokens and
    passwords are never printed.
    """


@command.command()
@click.argument("keys", metavar="[SETTING]...", nargs=-1)
@click.option("--origin", is_flag=True, help="Show the source of each value, and the values it overrides.")
@output_options
def show(*, output: Output, keys: tuple[str, ...], origin: bool) -> None:
    """Show the value of each SETTING, or of all."""
    layers = settings_layers(Path.cwd(), os.environ)
    chosen = _choose(trace_settings(*layers), keys)
    credentials = [] if keys else credential_places(os.environ)
    rows: list[ConfigCredential] = [{"origin": place, "from": source} for place, source in credentials]
    settings = [_object(row) for row in chosen]
    output.document({"schema": "skillwire/config-show/1", "settings": settings, "credentials": rows})
    output.table(row for setting in chosen for row in _rows(setting, origin=origin))
    if credentials:
        output.line()
        output.line(bold("credentials"), dim("  values are hidden; each is sent only to its own origin"))
        output.table([place, dim(source)] for place, source in credentials)


@command.command()
@output_options
def path(*, output: Output) -> None:
    """Print the paths of the settings files: the project's, if there is one, and your own."""
    project, own = find_project_file(Path.cwd()), user_file()
    files: ConfigPathDocument = {
        "schema": "skillwire/config-path/1",
        "project": str(project) if project else None,
        "user": str(own),
        "user_exists": own.is_file(),
    }
    output.document(files)
    if project is not None:
        output.line(str(project))
    output.line(str(own))
    if not own.is_file():
        output.note(dim(f"{own} does not exist yet"))


def _choose(settings: list[TracedSetting], keys: Sequence[str]) -> list[TracedSetting]:
    by_key = {row.key: row for row in settings}
    for key in keys:
        if key not in by_key:
            fix = did_you_mean(closest(key, by_key)) or f"Settings are {', '.join(by_key)}."
            raise UsageError("USAGE", f"there is no setting {ascii(key)[:60]}", fix=fix)
    return [by_key[key] for key in keys] or settings


def _rows(setting: TracedSetting, *, origin: bool) -> list[list[Part]]:
    if not origin:
        return [[setting.key, _text(setting.value)]]
    rows: list[list[Part]] = [[setting.key, _text(setting.value), _place(setting.place)]]
    rows += [["", dim(f"overrides {_text(row.value)}"), dim(_place(row.place))] for row in setting.hidden if row.place]
    return rows


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


def _place(place: SourceLocation | None) -> str:
    return f"{place.source}:{place.line}" if place and place.line else place.source if place else "default"


def _object(setting: TracedSetting) -> ConfigSetting:
    return {
        "setting": setting.key,
        "value": setting.value,
        "from": _place(setting.place),
        "hides": [{"value": row.value, "from": _place(row.place)} for row in setting.hidden],
    }
