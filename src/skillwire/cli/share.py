"""``skillwire share``: one skill for a colleague on the local network, for as long as the command runs.

The server has the files of a static build and nothing else: no database, no calls, no pages of other skills. The line
to paste names the artifact by its digest, so that no other bytes can be installed with it. Both sides show six words of
that digest; compare them where the channel of the line is untrusted.
"""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
from contextlib import nullcontext
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from skillwire.adapters.lan import sockets
from skillwire.cli.lan import run_until_stopped
from skillwire.cli.options import Duration
from skillwire.cli.output import (
    Output,
    bold,
    dim,
    output_options,
    print_end,
    success,
    terminal_columns,
    warning,
)
from skillwire.errors import NotFoundError, SourceLocation, TrustError, UsageError
from skillwire.folder.load import refused_folder
from skillwire.model.lan import host_and_port
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import WELL_KNOWN
from skillwire.trust.address import AddressPolicy
from skillwire.trust.words import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.model.catalog import Catalog

_CONNECTIONS: Final = 64
_QR_COLUMNS: Final = 60  # the code of a line with a long name
#: An address of a network for documentation: asking for a way there sends nothing.
_ELSEWHERE: Final = ("192.0.2.1", 9)


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(exists=True, file_okay=False))
@click.option("--for", "seconds", type=Duration("10m", is_positive=True), metavar="TIME", help="Stop after this time.")
@click.option("--once", is_flag=True, help="Stop after the first download.")
@click.option("--host", help="Address to listen on; by default that of this machine on the network.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port to listen on; by default a free one.")
@output_options
def command(*, output: Output, folder: str, seconds: float | None, once: bool, host: str | None, port: int) -> None:
    """Share the skill in FOLDER on the local network, with a QR code and a line to paste, until Ctrl-C.

    The line installs exactly these files on the other machine, which shows the same six words. Everyone on the network
    can read the skill meanwhile; nothing can be called.
    """
    from skillwire.server import app, run  # noqa: PLC0415  # --help does without

    address = host or _own_address()
    with TemporaryDirectory(prefix="skillwire-share-") as site, run.listen(address, port) as listener:
        bound, number = listener.getsockname()[:2]
        reached = _own_address() if ip_address(bound).is_unspecified else bound
        base = f"http://{host_and_port(reached, number)}"
        name, digest = _build(folder, site, base, app.site_files((), "local", base))
        _announce(output, base, name, digest, is_local=ip_address(reached).is_loopback)
        stopped = asyncio.Event()
        serving = _serve(output, site, digest, listener, stopped, once=once, seconds=seconds)
        asyncio.run(run_until_stopped(serving, stopped))
    if not (output.as_json or output.quiet):
        print_end("stopped")


def _own_address() -> str:
    """Return the address from which this machine reaches the network, or its own one there; loopback without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(_ELSEWHERE)
        except OSError:  # no default route
            found = (one.host for one in sockets.links(sockets.present(), has_ipv6=False))
            return next(found, "127.0.0.1")
        return str(asked.getsockname()[0])


def _build(folder: str, site: str, base: str, listings: Callable[[Catalog], Mapping[str, bytes]]) -> tuple[str, str]:
    """Build the skill into ``site``; return its name and digest. Raises UsageError, NotFoundError, ValidationError."""
    from skillwire.adapters.files import loading, static_site  # noqa: PLC0415  # takes a while

    place = SourceLocation(folder)
    roots = tuple(loading.published_roots([folder]))
    build = static_site.SiteBuild(
        static_site.SiteOptions(roots, Path(site), base_url=base, use_record=False, listings=listings)
    )
    if len(build.folders) != 1:
        message = f"share takes one skill, and this folder has {len(build.folders)}"
        raise UsageError("USAGE", message, place=place, fix="Name the folder of one; serve FOLDER --lan serves all.")
    report = build.run(lambda _: None)
    if report.errors:
        raise refused_folder(report.findings, folder)
    if not report.public:
        fix = 'Give it access = "public" in its skill.toml.'
        message = "the skill is not public, and everyone could read it"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=place, fix=fix)
    [skill] = json.loads(Path(f"{site}{WELL_KNOWN}/index.json").read_bytes())["skills"]
    return skill["name"], skill["digest"]


def _announce(output: Output, base: str, name: str, digest: str, *, is_local: bool) -> None:
    line = f"skillwire add {base}/{name}@{digest}"
    words = " ".join(words_of(bytes.fromhex(digest.removeprefix("sha256:"))))
    output.document({
        "schema": "skillwire/share/1", "name": name, "url": base, "digest": digest, "words": words, "add": line,
    })  # fmt: skip
    if (terminal_columns(sys.stdout) or 0) >= _QR_COLUMNS and not output.quiet:
        import segno  # noqa: PLC0415  # only a terminal shows the code

        code = io.StringIO()
        segno.make(line, error="l", micro=False).terminal(code, border=2, compact=True)
        output.text(code.getvalue())
    output.verbatim(line)
    output.note(dim("six words  "), bold(words), dim("  the other side shows the same"))
    if is_local:
        output.note(warning("for this machine only: "), "no other machine reaches it; name an address: --host")
        return
    if (refused := _refusal(base)) is not None:
        output.note(warning("refused on the other side: "), refused)
    output.note(warning("open to the network: "), f"everyone who reaches {base} can read {name}; Ctrl-C stops")


def _refusal(base: str) -> str | None:
    """Return why ``add`` refuses this address, which the line names, and what helps; None where it does not."""
    url = parse_url(base)
    try:
        AddressPolicy().naming(url).check_url(url)
    except TrustError as error:
        helps = f"first set SKILLWIRE_ALLOW={url.host} there"
        if error.code != "ADDRESS_REFUSED":
            helps = "name an address of the local network: --host"
        return f"{error.message}; {helps}"
    return None


async def _serve(
    output: Output,
    site: str,
    digest: str,
    listener: socket.socket,
    stopped: asyncio.Event,
    *,
    once: bool,
    seconds: float | None,
) -> None:
    """Serve the folder until ``stopped``, for ``seconds``, or until the artifact was downloaded ``once``."""
    import uvicorn  # noqa: PLC0415  # --help does without
    from starlette import applications, routing, staticfiles  # noqa: PLC0415  # same

    files = applications.Starlette(routes=[routing.Mount("/", staticfiles.StaticFiles(directory=site))])
    artifact = f"{WELL_KNOWN}/{digest.replace(':', '/')}."

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await files(scope, receive, send)
        if scope["method"] == "GET" and scope["path"].startswith(artifact):
            output.note(success("downloaded "), dim(f"by {(scope.get('client') or ('?',))[0]}"))
            if once:
                stopped.set()

    config = uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign,assignment]  # run_until_stopped has them
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    end = asyncio.create_task(stopped.wait())
    await asyncio.wait([serving, end], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    end.cancel()
