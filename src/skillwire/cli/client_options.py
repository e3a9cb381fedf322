"""What the consuming commands share: their options, the client they open, how they ask and tell."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.output import one_line
from skillwire.errors import UsageError
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.cli.output import Output
    from skillwire.client.synchronous import Client
    from skillwire.model.install import LockedSkill
    from skillwire.model.ref import SkillRef


def network_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--token`` and ``--offline``."""
    for option in (
        click.option("--offline", is_flag=True, default=None, help="Use only what the cache holds."),
        click.option("--token", metavar="TOKEN", help="Token for the origin; better kept in SKILLWIRE_TOKENS."),
    ):
        command = option(command)
    return command


def refresh_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--refresh``."""
    return click.option("--refresh", is_flag=True, help="Ask the origin even when the cache is fresh.")(command)


def scope_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--global``."""
    return click.option("-g", "--global", "for_user", is_flag=True, help="Your own skills instead of the project's.")(
        command
    )


def open_client(
    output: Output,
    *,
    references: Sequence[str] = (),
    token: str | None = None,
    for_user: bool = False,
    offline: bool | None = None,
    refresh: bool = False,
) -> Client:
    """Return a client for the current folder that tells ``output`` what it skips.

    ``references`` is what the user typed; a ``token`` goes to their origin, or, where nothing was typed, to the
    origin of what is installed; that must be one.
    """
    from skillwire.client.synchronous import Client  # noqa: PLC0415  # --help does without

    client = Client(for_user=for_user, offline=offline, refresh=refresh, report=output.finding)
    if token is not None:
        client.set_token(_one_origin(client, references), token)
    return client


def _one_origin(client: Client, references: Sequence[str]) -> str:
    from skillwire.model.url import parse_url  # noqa: PLC0415  # only --token needs it
    from skillwire.resolver.reference import parse_reference  # noqa: PLC0415  # as above

    urls = [lookup.location.url for reference in references for lookup in parse_reference(reference).lookups]
    if not references:
        urls = [locked.index for locked in client.run(client.installed()) if locked.index]
    origins = {str(parse_url(url).origin) for url in urls}
    if len(origins) != 1:
        fix = "Name one origin, or set SKILLWIRE_TOKENS='https://a.example=... https://b.example=...'."
        raise UsageError("USAGE", f"--token is for one origin, and {len(origins)} are named", fix=fix)
    return origins.pop()


def confirm(question: str) -> bool:
    """Ask on the terminal; False where there is none. ``question`` may hold text from outside."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(one_line(question), default=False, err=True)


def ref_object(ref: SkillRef) -> dict[str, Any]:
    """Return a found skill for ``--json``."""
    return {
        "name": ref.name,
        "reference": reference_to(ref),
        "origin": ref.origin,
        "description": ref.description,
        "version": ref.version,
        "digest": ref.digest,
        "found_via": ref.found_via,
    }


def locked_object(locked: LockedSkill) -> dict[str, Any]:
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
    }


def shortened(text: str, width: int) -> str:
    """Return ``text`` as one line, cut to ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(width - 1, 1)].rstrip() + "…"


@functools.cache
def terminal_width() -> int:
    """Return how wide a line may be; wide in a pipe, where nothing is cut for looks."""
    import shutil  # noqa: PLC0415  # only for lines that are cut

    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 1_000
