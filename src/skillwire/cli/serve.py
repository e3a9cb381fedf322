"""``skillwire serve``: folders of skills over HTTP, live."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from skillwire.cli.event_stream import EventStream
from skillwire.cli.output import doubtful, output_options, strong, tell_end, whole
from skillwire.cli.serve_lan import announced_at, lan_options, listen_for, read_goodbye_reason, read_lan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.server.revision import Revision


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
        tell_end("stopped")


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
    output.line("serving ", strong(number), f"{opened} at ", strong(address), "; add one: ", whole(hint))
    if is_open:
        output.note(doubtful("open to the network: "), "at every address of this machine; --host names one")
    if announced:
        output.note("announced at ", whole(", ".join(announced)))
    if no_workers and any(skill.action is not None for skill in revision.everything.skills.values()):
        output.note(doubtful("nothing is run here: "), "calls are accepted, and wait for ", whole("skillwire work"))
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
