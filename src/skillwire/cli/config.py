"""``skillwire config`` and ``doctor``: the settings in force, a server's, and problems of this machine; read only."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.atomic import home_directory
from skillwire.adapters.files.credentials import credential_places
from skillwire.adapters.files.settings_file import find_project_file, settings_layers, user_file
from skillwire.cli.advice import closest, did_you_mean
from skillwire.cli.options import CommandGroup, plural, scope_option
from skillwire.cli.output import Output, Part, Styled, bold, dim, failure, output_options, success, warning
from skillwire.cli.serve import command as serve_command
from skillwire.codes import CODES
from skillwire.errors import SkillwireError, SourceLocation, UsageError
from skillwire.resolver.context import as_finding
from skillwire.resolver.settings import TracedSetting, trace_settings
from skillwire.trust.guarded_toml import load_toml, toml_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.adapters.checks import Diagnosis
    from skillwire.cli.documents import ConfigCredential, ConfigSetting, ServeSetting


_PASSWORD: Final = re.compile(r"(://[^@/]*:|[?&]password=)[^@&]*")


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
    """Show the settings in force, and the source of each; check the configuration of a server.

    Precedence: command options, the environment, the project's skillwire.toml, your own skillwire.toml; for a server:
    options, the environment, the file of --config. Tokens and passwords are never printed.
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
    rows_shown: list[list[Part]] = []
    for setting in chosen:
        rows_shown.append([setting.key, _text(setting.value), *([_place(setting.place)] if origin else [])])
        hidden = [row for row in setting.hidden if origin and row.place]
        rows_shown += [["", dim(f"overrides {_text(row.value)}"), dim(_place(row.place))] for row in hidden]
    output.table(rows_shown)
    if credentials:
        output.line()
        output.line(bold("credentials"), dim("  values are hidden; each is sent only to its own origin"))
        output.table([place, dim(source)] for place, source in credentials)


@command.command()
@output_options
def path(*, output: Output) -> None:
    """Print the paths of the settings files: the project's, if there is one, and your own."""
    project, own = find_project_file(Path.cwd()), user_file()
    output.document({
        "schema": "skillwire/config-path/1", "project": str(project) if project else None, "user": str(own),
        "user_exists": own.is_file(),
    })  # fmt: skip
    if project is not None:
        output.line(str(project))
    output.line(str(own))
    if not own.is_file():
        output.note(dim(f"{own} does not exist yet"))


@command.command()
@click.argument(
    "file",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="SKILLWIRE_SERVE_CONFIG",
)
@output_options
def check(*, output: Output, file: Path | None) -> None:
    """Report every problem of a server's configuration FILE, and of the files and variables that it names.

    FILE is by default that of SKILLWIRE_SERVE_CONFIG. Exits with 2 when there is a problem.
    """
    if file is None:
        fix = "Name it: skillwire config check FILE; or set SKILLWIRE_SERVE_CONFIG."
        raise UsageError("USAGE", "no configuration file is named", fix=fix)
    problems = sorted(_problems(file), key=lambda error: (error.place and error.place.line) or 0)
    for problem in problems:
        found = as_finding(problem)._replace(level="error")
        is_general = found.fix == CODES["SERVER_CONFIGURATION"].fix  # which names this command
        output.finding(found._replace(fix="Correct it at the location shown.") if is_general else found)
    output.document({"schema": "skillwire/config-check/1", "file": str(file)})
    output.line(f"{file}: ", plural(len(problems), "problem") if problems else "no problem found")
    if problems:
        click.get_current_context().exit(UsageError.exit_code)


def _problems(file: Path) -> Iterator[SkillwireError]:
    from skillwire.server.configuration import examine_configuration, load_credentials  # noqa: PLC0415  # --help does without

    try:
        configuration, problems = examine_configuration(file)
    except SkillwireError as error:
        yield error
        return
    yield from problems
    secrets = configuration.executions.secrets_file
    checks = (
        lambda: load_credentials(configuration, os.environ),
        lambda: Secrets({}, Path(secrets) if secrets else None).load(),
    )
    for find in checks:
        try:
            find()
        except SkillwireError as error:
            yield error
    for folder in configuration.serve.get("folders", ()):
        if not Path(folder).is_dir():
            place, fix = SourceLocation(folder), "Create the folder, or correct serve.folders."
            yield UsageError("SERVER_CONFIGURATION", "serve.folders names no folder", place=place, fix=fix)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@output_options
def serve(*, output: Output, arguments: tuple[str, ...]) -> None:
    """Show the settings of skillwire serve with these arguments, and the source of each.

    Settings of the configuration file that are no options of serve are shown where the file sets them.
    """
    from skillwire.server.configuration_keys import TABLES  # noqa: PLC0415  # --help does without

    with serve_command.make_context("serve", list(arguments)) as context:
        file = context.params["config"]
        text = Path(file).read_text() if file else ""
        tables = load_toml(text.encode(), source=file or "")
        keys = {row.setting or key: key for key, row in TABLES["serve"].items()}
        rows: list[ServeSetting] = []
        for parameter in serve_command.params:
            name = parameter.name
            if name not in context.params or name in {"as_json", "quiet"}:
                continue
            source, place = context.get_parameter_source(name), "default"
            if source is ParameterSource.COMMANDLINE:
                place = "option"
            elif source is ParameterSource.ENVIRONMENT:
                place = str(parameter.envvar)
            elif source is ParameterSource.DEFAULT_MAP:
                place = _place(toml_place(text, ("serve", keys[name]), file))
            value = context.params[name]
            if name == "store" and not value:
                variables = (one for one in ("SKILLWIRE_STORE", "SKILLWIRE_STORE_FILE") if os.environ.get(one))
                place = next(variables, place)
                value = os.environ.get(place, value)
            value = _PASSWORD.sub(r"\1...", value) if name == "store" else value
            rows.append({"setting": f"serve.{keys.get(name, name)}", "value": value, "from": place})
    for table, content in tables.items():
        for key, value in content.items() if table != "serve" else ():
            rows.append(
                {"setting": f"{table}.{key}", "value": value, "from": _place(toml_place(text, (table, key), file))}
            )
    output.document({"schema": "skillwire/config-serve/1", "settings": rows})
    output.table([row["setting"], _text(row["value"]), dim(row["from"])] for row in rows)


def _choose(settings: list[TracedSetting], keys: Sequence[str]) -> list[TracedSetting]:
    by_key = {row.key: row for row in settings}
    for key in keys:
        if key not in by_key:
            fix = did_you_mean(closest(key, by_key)) or f"Settings are {', '.join(by_key)}."
            raise UsageError("USAGE", f"there is no setting {ascii(key)[:60]}", fix=fix)
    return [by_key[key] for key in keys] or settings


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return " ".join(str(item) for item in value) or "none"
    if value is None or value == "":
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _place(place: SourceLocation | None) -> str:
    return f"{place.source}:{place.line}" if place and place.line else place.source if place else "default"


def _object(setting: TracedSetting) -> ConfigSetting:
    return {
        "setting": setting.key,
        "value": setting.value,
        "from": _place(setting.place),
        "hides": [{"value": row.value, "from": _place(row.place)} for row in setting.hidden],
    }


_MARKS: Final[dict[str, Callable[[object], Styled]]] = {"ok": success, "warning": warning, "problem": failure}
_MARK_WIDTH: Final = max(map(len, _MARKS))


@click.command()
@click.option("--offline", is_flag=True, help="Check without using the network.")
@scope_option
@click.option(
    "--store",
    metavar="URL",
    default="",
    help="Shared database to ask, such as postgresql://HOST/NAME; by default that of SKILLWIRE_STORE.",
)
@output_options
def doctor_command(*, output: Output, offline: bool, for_user: bool, store: str) -> None:
    """Check network, sources, clock, folders, shared database, settings, cache and installed skills.

    Nothing is changed. Each finding explains the problem, its effect and its fix. Exits with 1 when there is a problem;
    warnings do not count.
    """
    from skillwire.adapters.doctor import count, examine, read_environment  # noqa: PLC0415  # --help does without

    root = home_directory() if for_user else Path.cwd()
    options = {"for_user": for_user, "offline": offline}
    sections = examine(read_environment(root, os.environ, time.time(), **options, store=store))
    counted = count(sections)
    output.document(
        {
            "schema": "skillwire/doctor/1",
            "checks": [
                {"section": section.title, "severity": row.severity, "what": row.what, "why": row.why, "fix": row.fix}
                for section in sections
                for row in section.diagnoses
            ],
            "counts": {severity: counted[severity] for severity in counted},
        }
    )
    for section in sections:
        shown = [row for row in section.diagnoses if row.severity != "ok" or not output.quiet]
        if shown:
            output.line(bold(section.title))
            for row in shown:
                _print_diagnosis(output, row)
            output.line()
    texts = [plural(counted[kind], kind) for kind in ("problem", "warning") if counted[kind]]
    style = failure if counted["problem"] else warning if texts else success
    output.line(style(" and ".join(texts) or "no problems found"))
    if counted["problem"]:
        raise click.exceptions.Exit(1)


def _print_diagnosis(output: Output, row: Diagnosis) -> None:
    mark = _MARKS[row.severity](row.severity)
    indent = _MARK_WIDTH + 4
    output.line("  ", mark, " " * (_MARK_WIDTH - len(row.severity) + 2), row.what, indent=indent)
    for label, text in (("why", row.why), ("fix", row.fix)):
        if text:
            output.line(" " * indent, dim(f"{label}  "), text, indent=indent + len(label) + 2)
