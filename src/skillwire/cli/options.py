"""Options, prompts, groups and parameter types that several commands share."""

from __future__ import annotations

import importlib
import re
import sys
import time
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict, TypeVar

import click

from skillwire.cli.output import Output, columns, dim, folded, one_line
from skillwire.errors import UsageError
from skillwire.model.url import parse_url
from skillwire.resolver.references import parse_reference, reference_to
from skillwire.trust.hidden_text import display_width, neutralise
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from skillwire.adapters.stores import Stores
    from skillwire.cli.documents import LockedObject, RefObject
    from skillwire.client.sync import Client
    from skillwire.model.ref import LockedSkill, SkillRef

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

T = TypeVar("T")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FORM: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw])", re.ASCII)
_MOST: Final = 36_525 * _SECONDS["d"]  # a hundred years, so that every moment has a date
_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_WORDS: Final = (("d", "days"), ("h", "hours"), ("m", "minutes"), ("s", "seconds"))
_LENGTH: Final = 64


class NetworkOptions(TypedDict):
    """The values of ``network_options`` and ``refresh_option``, as :func:`open_client` takes them."""

    token: str | None
    offline: bool | None
    timeout: float | None
    refresh: NotRequired[bool]


class LazyModule:
    """A module of ours that is imported with the first use of one of its names, so that ``--help`` goes without it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Return what the module defines as ``name``."""
        return getattr(importlib.import_module(f"skillwire.{self._name}"), name)


def combine(*options: Decorator) -> Decorator:
    """Return one decorator that adds ``options`` to a command, in this order."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


class Duration(click.ParamType):  # type: ignore[type-arg]  # that of click 8.2 takes none
    """A number and its unit, such as ``example``; the value is in seconds, at most a hundred years."""

    name = "duration"

    def __init__(self, example: str = "90d", *, is_positive: bool = False) -> None:
        self._example, self._is_positive = example, is_positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; reject other forms."""
        if isinstance(value, float):
            return value
        found = _FORM.fullmatch(value)
        if found is None:
            how = f"write a number and s, m, h, d or w, such as {self._example}"
            self.fail(f"{ascii(value)[:40]} is not a duration; {how}", param, ctx)
        seconds = float(found[1]) * _SECONDS[found[2]]
        if self._is_positive and not seconds:
            self.fail("the time must be more than 0", param, ctx)
        if seconds > _MOST:
            self.fail(f"{value} is longer than a hundred years", param, ctx)
        return seconds


def timeout_option(text: str, default: str | None = None) -> Decorator:
    """Return the option ``--timeout`` with this help."""
    return click.option(
        "--timeout", metavar="TIME", type=Duration("30s"), default=default, show_default=default is not None, help=text
    )


token_option = click.option("--token", metavar="TOKEN", help="Token for the origin; prefer SKILLWIRE_TOKENS.")
network_options = combine(
    token_option,
    click.option("--offline", is_flag=True, default=None, help="Use only cached data, and no network."),
    timeout_option("Time limit for all requests together, such as 30s."),
)
refresh_option = click.option("--refresh", is_flag=True, help="Ask the origin even if the cache is fresh.")
scope_option = click.option(
    "-g", "--global", "for_user", is_flag=True, help="Use your own skills instead of the project's."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would happen, and change nothing.")
publisher_option = click.option(
    "--publisher", default="local", show_default=True, metavar="NAME", help="Publisher name used in skill IDs."
)
server_config_option = click.option(
    "--config", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Server configuration: a TOML file."
)
log_format_option = click.option(
    "--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Format of the log."
)


def has_terminal() -> bool:
    """Whether there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def can_ask(output: Output) -> bool:
    """Whether the command may ask questions: there is a terminal, and the user has not forbidden it."""
    return not (output.as_json or output.quiet) and has_terminal()


def plural(number: int, word: str) -> str:
    """Return a count with its word, such as ``1 skill`` and ``2,000 skills``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def utc_time(seconds: float) -> str:
    """Return a point in time as RFC 3339 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def open_client(
    output: Output,
    *,
    references: Sequence[str] = (),
    token: str | None = None,
    for_user: bool = False,
    offline: bool | None = None,
    refresh: bool = False,
    timeout: float | None = None,
) -> Client:
    """Return a client for the current folder that reports findings and traffic to ``output``.

    A ``token`` is sent to the origin of ``references``, as typed, or else of the installed skills; both must name one
    origin only.
    """
    from skillwire.client.sync import Client  # noqa: PLC0415  # --help does without

    report, on_traffic = output.progress.beside(output.finding), output.progress.traffic
    client = Client(for_user=for_user, offline=offline, refresh=refresh, report=report, on_traffic=on_traffic)
    client.limit = TimeLimit(timeout)
    if token is not None:
        client.set_token(_one_origin(client, references), token)
    return client


def count_others(output: Output, number: int, limit: int) -> None:
    """Print how many rows of ``number`` the option ``--limit`` left out."""
    if number > limit:
        output.note(dim(f"{number - limit} more; see them with --limit {number}"))


def _one_origin(client: Client, references: Sequence[str]) -> str:
    urls = [lookup.url for reference in references for lookup in parse_reference(reference).lookups]
    if not references:
        urls = [locked.index for locked in client.installed() if locked.index]
    origins = {str(parse_url(url).origin) for url in urls}
    if len(origins) != 1:
        fix = "Name one origin, or set SKILLWIRE_TOKENS='https://a.example=... https://b.example=...'."
        raise UsageError("USAGE", f"--token is for one origin, and {len(origins)} are named", fix=fix)
    return origins.pop()


def confirm(question: str, *, about: str = "") -> bool:
    """Ask a yes-or-no question below the line ``about``; return False without a terminal."""
    if not has_terminal():
        return False
    if about:
        click.echo(folded(about), err=True)
    return ask(f"{question} [y/N]", {"n": False, "no": False, "y": True, "yes": True}, "y or n")


def ask(question: str, answers: Mapping[str, T], wanted: str) -> T:
    """Ask until the answer is one of ``answers``, or empty, which is the first; else say what is ``wanted``."""

    def read(typed: str) -> T:
        if (answer := typed.strip().lower()) in answers:
            return answers[answer]
        raise click.UsageError(f"answer {wanted}")

    default = next(iter(answers))
    return click.prompt(folded(question), default, show_default=False, value_proc=read, err=True)


def ref_object(ref: SkillRef) -> RefObject:
    """Return a found skill for ``--json``."""
    return {
        "name": ref.name,
        "reference": reference_to(ref),
        "origin": ref.origin,
        "description": ref.description,
        "version": ref.version,
        "digest": ref.digest,
        "found_via": ref.found_via,
        "heard_at": ref.fetched_at,
        "freshness": ref.freshness,
        "health": None if ref.lan is None else ref.lan.status,
        "trust": None if ref.lan is None else ref.lan.trust,
        "shared": ref.shared,
        "rpc": ref.rpc,
    }


def locked_object(locked: LockedSkill) -> LockedObject:
    """Return an installed skill for ``--json``."""
    return {
        "name": locked.name,
        "origin": locked.origin,
        "version": locked.version,
        "digest": locked.digest,
        "first_seen": locked.first_seen,
        "agents": list(locked.agents),
        "folders": list(locked.placement.folders),
        "links": list(locked.placement.links),
        "files": len(locked.files),
        "requires": dict(locked.requires),
    }


def shortened(text: str, width: int) -> str:
    """Return ``text`` as one line of at most ``width`` columns, cut between words where possible."""
    line = " ".join(one_line(text).split())
    if display_width(line) <= width:
        return line
    least, most = 0, len(line)
    while least < most:  # halving: an untrusted text may have megabytes
        middle = (least + most + 1) // 2
        least, most = (middle, most) if display_width(line[:middle]) < width else (least, middle - 1)
    line = line[:least]
    whole_words = line.rpartition(" ")[0]
    return (whole_words if len(whole_words) > len(line) * 2 // 3 else line).rstrip(" ,;:.") + "…"


def terminal_width() -> int:
    """Return the width for cutting lines; practically unlimited in a pipe."""
    return columns(100) if sys.stdout.isatty() else 10_000


def ago(seconds: float) -> str:
    """Return a time span in its largest unit: ``3 s``."""
    seconds = max(0.0, seconds)
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds // size:.0f} {unit}"


def in_words(seconds: float) -> str:
    """Return a duration in its largest unit with a count of at least two: ``90 days``."""
    for unit, word in _WORDS:
        if seconds >= 2 * _SECONDS[unit]:
            return f"{round(seconds / _SECONDS[unit])} {word}"
    return "a second"


#: Characters of the longest first sentence of a command.
_SENTENCE: Final = 200


class CommandGroup(click.Group):
    """A group of subcommands that suggests a name for an unknown one, and tells each whole in its help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command."""
        with formatter.section("Commands"):
            named = [(name, self.commands[name]) for name in self.list_commands(ctx)]
            formatter.write_dl(
                [(name, one.get_short_help_str(limit=_SENTENCE)) for name, one in named if not one.hidden]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from skillwire.cli.advice import unknown_command  # noqa: PLC0415  # only an error needs it

            root = ctx.find_root()
            outside = root.command.list_commands(root) if isinstance(root.command, click.Group) else ()
            raise unknown_command(args[0], self.commands, ctx.command_path, outside=outside)
        return super().resolve_command(ctx, args)


class GroupWithDefaultList(CommandGroup):
    """A group that runs ``list`` without a subcommand: ``skillwire grant`` is ``skillwire grant list``.

    Another ``default`` may take words, too, that name no subcommand.
    """

    default, takes_words = "list", False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default if there is no subcommand."""
        is_default = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, [self.default, *args] if is_default and not ctx.resilient_parsing else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; the default takes other words, if it takes any."""
        is_default = self.takes_words and args[0] not in self.commands
        return super().resolve_command(ctx, [self.default, *args] if is_default else args)


_STORE: Final = "skillwire.store"
store_option = click.option(
    "--store",
    metavar="URL",
    expose_value=False,
    callback=lambda context, _, url: context.meta.__setitem__(_STORE, url or ""),
    help="Database that servers share, such as postgresql://HOST/NAME; or SKILLWIRE_STORE.",
)


def chosen_stores() -> Stores:
    """Return the stores that the command's ``--store`` names, by default those of this machine."""
    from skillwire.adapters.stores import open_stores  # noqa: PLC0415  # brings msgspec

    stores = open_stores(click.get_current_context().meta.get(_STORE, ""))
    if stores.is_shared:
        run_async(stores.prepare())
    return stores


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run to its end."""
    from skillwire.adapters.stores import run_with_stores  # noqa: PLC0415  # brings msgspec

    return run_with_stores(coroutine)


def login_name() -> str:
    """Return the user's login name, or ``unknown``; for display, not for authentication."""
    import getpass  # noqa: PLC0415  # brings termios

    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # neither the environment nor the user database has it
        return "unknown"
    return neutralise(name)[:_LENGTH] or "unknown"
