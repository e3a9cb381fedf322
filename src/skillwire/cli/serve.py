"""What ``serve --json`` prints: one JSON object a line, written out at once.

Events come from the event loop and from the thread that publishes. ``listening`` is always the first line, so what
comes before it is held back. Requests are not told: a reader who stops reading would then hold up the server.

``skillwire serve``: folders of skills over HTTP, live.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.output import bold, doubtful, encode_document, nowrap, output_options, print_end
from skillwire.cli.serve_lan import announced_at, lan_options, listen_for, read_goodbye_reason, read_lan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.cli.output import Output
    from skillwire.server.revision import Revision


class EventStream:
    """Prints events as lines; silent unless ``shown``."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._lock = threading.Lock()
        self._held: list[dict[str, Any]] | None = []

    def begin(self, fields: Mapping[str, Any]) -> None:
        """Tell that requests are answered, and then what was held back."""
        with self._lock:
            held, self._held = self._held or [], None
            for event in [{"event": "listening", **fields}, *held]:
                self._print(event)

    def end(self) -> None:
        """Tell that the server has ended, if it ever began."""
        with self._lock:
            if self._held is None:
                self._print({"event": "stopped"})

    def hear(self, logged: Mapping[str, Any]) -> None:
        """Take an event of the server's log; tell it if it is one of ours."""
        event = _event(logged) if self._shown else None
        if event is None:
            return
        with self._lock:
            if self._held is None:
                self._print(event)
            else:
                self._held.append(event)

    def _print(self, event: dict[str, Any]) -> None:
        if not self._shown:
            return
        try:
            click.echo(encode_document({"schema": "skillwire/serve/1", **event}, indent=None))
        except OSError:  # the reader has gone; that is no reason to stop serving
            self._shown = False


def _event(logged: Mapping[str, Any]) -> dict[str, Any] | None:
    if logged["event"] == "published":
        counts = {kind: _count(logged.get(kind, 0)) for kind in ("added", "changed", "removed")}
        return {"event": "published", "revision": logged["revision"], "skills": logged["skills"], **counts}
    if logged["event"] == "skill broken":
        return {
            "event": "broken",
            "skill": logged["skill"],
            "serving": logged["serving"].startswith("its last good version"),
            "code": logged["code"],
            "message": logged["reason"],
            "place": logged["place"],
            "fix": logged["fix"],
        }
    if logged["event"] in {"on the LAN", "not on the LAN"}:
        return {"event": "lan", "agent": logged.get("agent"), "reason": logged.get("reason")}
    return None


def _count(told: int | str) -> int:
    """Return how many names the log tells: a few are written out, many are counted."""
    return told if isinstance(told, int) else len(told.split(", "))


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--host", help="Address to listen at; 127.0.0.1 unless given, and with --lan every one.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--base-url", metavar="URL", help="Put before the URLs in indexes, which are relative without it.")
@click.option("--publisher", default="local", show_default=True, metavar="NAME", help="Whose skills these are.")
@click.option("--config", metavar="FILE", type=click.Path(), help="Who may authenticate, and how: a TOML file.")
@click.option("--grant-all", is_flag=True, help="Run every skill published here as it is; see skillwire grant.")
@click.option("--workers", type=click.IntRange(0, 1000), metavar="NUMBER", help="Executions that run at once.")
@click.option("--poll", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Look at the folders this often.")
@click.option("--access-log/--no-access-log", default=True, help="Log each request to standard error.")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Of logs.")
@lan_options
@output_options
def command(
    *,
    output: Output,
    folders: tuple[str, ...],
    host: str | None,
    port: int,
    base_url: str | None,
    publisher: str,
    config: str | None,
    grant_all: bool,
    workers: int | None,
    poll: float | None,
    access_log: bool,
    log_format: str,
    lan: bool,
    interfaces: tuple[str, ...],
    scenes: tuple[str, ...],
    discovery: str | None,
) -> None:
    """Serve the skills in each FOLDER over HTTP, and follow their changes.

    Nothing else has to run: clients find the index at /.well-known/agent-skills/index.json. A skill that
    becomes broken keeps its last good version, and the log says why. Skills that can be called are run here once
    somebody granted that: skillwire grant, or --grant-all for all that is in these folders.

    With --lan the skills that everybody may see announce themselves on the local network, say how they are, and say
    goodbye; and the server listens for those of others. It then listens at every address of this machine, unless
    --host says otherwise.
    """
    from skillwire.cli.execution_options import read_server_configuration  # noqa: PLC0415  # takes a while to import
    from skillwire.server.compose import app  # noqa: PLC0415  # same
    from skillwire.server.log import configure_logging  # noqa: PLC0415  # same
    from skillwire.server.run import address_of, run  # noqa: PLC0415  # same

    events = EventStream(shown=output.as_json)
    configure_logging(log_format, events.hear)
    configuration = read_server_configuration(config, grant_all=grant_all, workers=workers)
    network = read_lan(configuration.discovery, lan=lan, interfaces=interfaces, discovery=discovery, scenes=scenes)
    application = app(
        folders,
        base_url=base_url,
        publisher=publisher,
        poll=poll,
        access_log=access_log,
        configuration=configuration,
        lan=network,
    )
    if application.lan is not None:
        application.lan.scenes = scenes
        application.lan.goodbye_reason = partial(read_goodbye_reason, config, discovery)
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(network, host, port)]
        address = address_of(listeners[0])
        is_open = network is not None and host is None
        announced = announced_at(network, listeners)
        announce = partial(
            _announce,
            output,
            events,
            address,
            base_url,
            announced=announced,
            no_workers=workers == 0,
            is_open=is_open,
        )
        run(application, *listeners, on_ready=announce)
    events.end()
    if not (output.as_json or output.quiet):
        print_end("stopped")


def _announce(
    output: Output,
    events: EventStream,
    address: str,
    base_url: str | None,
    revision: Revision,
    *,
    announced: Sequence[str],
    no_workers: bool,
    is_open: bool,
) -> None:
    """Say where the skills are, for this machine and for others, and how to add one."""
    where = (base_url or address).rstrip("/")
    names, every = revision.site.names, len(revision.everything.skills)
    if names:
        hint = f"skillwire add {where}/{names[0]}"
    elif every:
        hint = "who was given a token can; make one with skillwire token create"
    else:
        hint = "there is none yet; make one with skillwire init"
    number = "1 skill" if every == 1 else f"{every} skills"
    opened = "" if revision.skills == every else f", {revision.skills or 'none'} of them open to everybody,"
    output.line("serving ", bold(number), f"{opened} at ", bold(address), "; add one: ", nowrap(hint))
    if is_open:
        output.note(doubtful("open to the network: "), "at every address of this machine; --host names one")
    if announced:
        output.note("announced at ", nowrap(", ".join(announced)))
    if no_workers and any(skill.action is not None for skill in revision.everything.skills.values()):
        output.note(doubtful("nothing is run here: "), "calls are accepted, and wait for ", nowrap("skillwire work"))
    events.begin(
        {
            "address": address,
            "announced": [*announced],
            "base_url": where,
            "skills": every,
            "open": revision.skills,
            "add": hint,
        }
    )
