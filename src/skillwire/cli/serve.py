"""``skillwire serve``, ``worker`` and ``rpc``: serve skills over HTTP, run accepted executions, and serve on a pipe."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from skillwire import limits
from skillwire.adapters.lan import sockets
from skillwire.adapters.lines import LineWriter, lines_of
from skillwire.cli.lan import discovery_option, discovery_settings, lan_settings
from skillwire.cli.lan_view import check_names
from skillwire.cli.options import (
    Duration,
    log_format_option,
    plural,
    publisher_option,
    server_config_option,
)
from skillwire.cli.output import Output, bold, nowrap, output_options, print_end, print_event, warning
from skillwire.errors import SourceLocation, UsageError, did_you_mean
from skillwire.model.execution import ExecutionSettings
from skillwire.model.lan import host_and_port
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

    from skillwire.cli.documents_run import Event, ServeListeningEvent
    from skillwire.protocols.skill_discovery.messages import Reason
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.revision import Revision


class EventStream:
    """Prints events as JSON lines, if ``shown``.

    Events come from the event loop and from the thread that publishes. ``listening`` is always the first line, so
    earlier events wait. Requests are not printed: a reader that stops reading would block the server.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._lock = threading.Lock()
        self._held: list[Event] | None = []

    def begin(self, listening: ServeListeningEvent) -> None:
        """Print the first line, then the events that came before it."""
        with self._lock:
            held, self._held = self._held or [], None
            for event in [listening, *held]:
                self._print(event)

    def end(self) -> None:
        """Print ``stopped``, if the server had started."""
        with self._lock:
            if self._held is None:
                self._print({"schema": "skillwire/serve/1", "event": "stopped"})

    def hear(self, logged: Mapping[str, Any]) -> None:
        """Print an event of the server's log if it has a line in the stream."""
        if self._shown and (event := _event(logged)) is not None:
            with self._lock:
                if self._held is None:
                    self._print(event)
                else:
                    self._held.append(event)

    def _print(self, event: Event) -> None:
        if not self._shown:
            return
        try:
            print_event(event)
        except OSError:  # the reader has gone; that is no reason to stop serving
            self._shown = False


_NETWORKS: Final[dict[str, Literal["lan", "dht"]]] = {
    "on the LAN": "lan", "not on the LAN": "lan", "in the DHT": "dht", "not in the DHT": "dht",
}  # fmt: skip


def _event(logged: Mapping[str, Any]) -> Event | None:
    if logged["event"] == "published":
        # A log field lists few names, and counts many.
        logs = {kind: logged.get(kind, 0) for kind in ("added", "changed", "removed")}
        counts = {kind: one if isinstance(one, int) else len(one.split(", ")) for kind, one in logs.items()}
        return {
            "schema": "skillwire/serve/1", "event": "published",
            "revision": int(logged["revision"]), "skills": int(logged["skills"]),
            "added": counts["added"], "changed": counts["changed"], "removed": counts["removed"],
        }  # fmt: skip
    if logged["event"] == "skill broken":
        return {
            "schema": "skillwire/serve/1",
            "event": "broken",
            "skill": str(logged["skill"]),
            "serving": str(logged["serving"]).startswith("its last good version"),
            "code": str(logged["code"]),
            "message": str(logged["reason"]),
            "place": str(logged["place"]),
            "fix": str(logged["fix"]),
        }
    if (network := _NETWORKS.get(logged["event"])) is not None:
        agent, reason = (None if one is None else str(one) for one in map(logged.get, ("agent", "reason")))
        return {"schema": "skillwire/serve/1", "event": network, "agent": agent, "reason": reason}
    return None


_STORE: Final = "PostgreSQL database that servers share, such as postgresql://HOST/NAME; or SKILLWIRE_STORE."


class _ServerCommand(click.Command):
    """A command with an environment variable for each parameter: ``prefix`` and its name."""

    def __init__(self, *arguments: Any, prefix: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._prefix = prefix
        for parameter in self.params:
            if parameter.name not in {"as_json", "quiet"}:
                parameter.envvar = f"{prefix}{parameter.name.upper()}"
            if isinstance(parameter, click.Option):
                parameter.show_envvar = True

    def warn_of_variables(self, output: Output, environment: Mapping[str, str]) -> None:
        """Report each variable that begins as those of the parameters and names none, as orchestrators set some."""
        known = [str(parameter.envvar) for parameter in self.params if parameter.envvar]
        for name in sorted(environment):
            if name.startswith(self._prefix) and name not in known:
                fix = did_you_mean(name, known, n=1) or f"Known are {', '.join(known)}."
                place = SourceLocation(ascii(name)[1:-1][:80])
                output.finding(Finding("USAGE", "warning", "there is no variable of this name", place, fix))


def read_configuration(path: str) -> ServerConfiguration:
    """Return the configuration of a server in the file at ``path``. Raises UsageError (``SERVER_CONFIGURATION``)."""
    from skillwire.server.configuration import load_configuration  # noqa: PLC0415  # takes a while to import

    return load_configuration(Path(path))


def _read_serve_table(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Take the options that the table ``[serve]`` of the file at ``path`` sets as defaults."""
    if path is not None and not context.resilient_parsing:
        context.default_map = dict(read_configuration(path).serve)
    return path


@click.command(cls=_ServerCommand, prefix="SKILLWIRE_SERVE_")
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path())
@click.option("--registry", is_flag=True, help="Be a registry too: serve what publishers push, beside the folders.")
@click.option("--host", help="Address to listen on; 127.0.0.1 by default, all with --lan, or --dht without --base-url.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--base-url",
    metavar="URL",
    help="Address at which others reach the server, such as https://skills.example.com; by default that of each "
    "request. Needed below a path of a proxy, with --dht, and for pages that call skills.",
)
@publisher_option
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    callback=_read_serve_table,
    help="Server configuration: a TOML file; its table [serve] sets these options.",
)
@click.option("--grant-all", is_flag=True, help="Run every published skill without a grant; see skillwire grant.")
@click.option(
    "--workers", type=click.IntRange(0, 1000), metavar="NUMBER", help="Maximum number of concurrent executions."
)
@click.option(
    "--poll",
    type=Duration("2s", is_positive=True),
    metavar="TIME",
    help="Check the folders for changes at this interval, such as 2s.",
)
@click.option("--access-log/--no-access-log", default=True, help="Log each request to standard error.")
@click.option("--store", metavar="URL", default="", help=_STORE)
@log_format_option
@click.option("--lan", is_flag=True, help="Announce the public skills on the local network.")
@click.option("--dht", is_flag=True, help="Announce the public skills in the DHT.")
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Network interface or address to announce on; all active ones by default; repeatable.",
)
@click.option(
    "--scene",
    "scenes",
    multiple=True,
    metavar="NAME",
    callback=check_names,
    help="Additional scene of the skills; repeatable.",
)
@discovery_option
@output_options
def command(
    *,
    output: Output,
    folders: tuple[str, ...],
    registry: bool,
    host: str | None,
    port: int,
    base_url: str | None,
    publisher: str,
    config: str | None,
    grant_all: bool,
    workers: int | None,
    poll: float | None,
    access_log: bool,
    store: str,
    log_format: str,
    lan: bool,
    dht: bool,
    interfaces: tuple[str, ...],
    scenes: tuple[str, ...],
    discovery: str | None,
) -> None:
    """Serve the skills in each FOLDER over HTTP, and publish changes live.

    Without FOLDER these are the current one's; with --registry alone none.

    Clients find the index at /.well-known/agent-skills/index.json. A skill that becomes invalid keeps its last valid
    version, and the log gives the reason. Callable skills run here once they are granted: see skillwire grant, or use
    --grant-all for all skills in these folders.

    With --lan the public skills are announced on the local network with their health, and the server discovers skills
    of other agents. It then listens on all addresses of this machine, unless --host is given. With --dht they are
    announced in the DHT, beyond the local network, with the URL of --base-url; discovery.dht names bootstrap nodes.
    """
    from skillwire.server import app, run  # noqa: PLC0415  # --help does without

    command.warn_of_variables(output, os.environ)
    folders = folders or (() if registry else (".",))
    if registry and grant_all:
        fix = "Leave --grant-all out, and grant single skills: skillwire grant add."
        raise UsageError("USAGE", "--grant-all is refused for a registry, to which others push skills", fix=fix)
    events = EventStream(shown=output.as_json)
    configuration = configure_server(config, log_format, events.hear, grant_all=grant_all, workers=workers)
    network = read_lan(
        configuration.discovery, lan=lan, interfaces=interfaces, discovery=discovery, scenes=scenes, dht=dht
    )
    node = read_dht(configuration.discovery, dht=dht, discovery=discovery)
    application = app.create_app(
        folders,
        base_url=base_url,
        publisher=publisher,
        poll=poll,
        access_log=access_log,
        configuration=configuration,
        lan=network,
        dht=node,
        registry=registry,
        store=store,
    )
    if application.lan is not None:
        application.lan.scenes = scenes
        application.lan.goodbye_reason = partial(read_goodbye_reason, config, discovery)
    with ExitStack() as stack:
        reached = network if base_url is not None else network or node
        listeners = [stack.enter_context(one) for one in run.listen_for(reached, host, port)]
        address = run.listener_url(listeners[0])
        exposure = base_url_warning(base_url, listeners)
        exposure = exposure or exposure_warning(reached, host, listeners, is_dht=network is None)
        announced = announced_at(network, listeners)
        announce = partial(_announce, output, events, address, base_url, registry=registry, folders=folders)
        announce = partial(announce, announced=announced, no_workers=workers == 0, exposure=exposure)
        run.run(application, *listeners, on_ready=announce)
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
    registry: bool,
    folders: Sequence[str],
    announced: Sequence[str],
    no_workers: bool,
    exposure: tuple[str, str] | None,
) -> None:
    """Print the address of the server, and how to add a skill, or to publish the first one of a registry."""
    where = (base_url or address).rstrip("/")
    names, every, verb = revision.site.names, len(revision.everything.skills), "add"
    broken = [one.folder for one in revision.broken]
    if names:
        hint = f"skillwire add {where}/{names[0]}"
    elif every:
        skill = next(iter(revision.everything.skills.values()))
        opened = f"{skill.publisher}/{skill.name}" if registry else skill.name  # a bare name opens no package
        verb, hint = "give access to", f"skillwire token create NAME --skill {opened}"
    elif registry:
        verb, hint = "publish", f"skillwire publish FOLDER --registry {where}"
    elif broken:
        verb, hint = "fix", f"skillwire check {shlex.quote(broken[0])}"
    else:
        verb, hint = "create", f"skillwire init NAME --dir {shlex.quote(folders[0])}"
    number = plural(every, "skill")
    opened = "" if revision.skills == every else f", {revision.skills or 'none'} of them public,"
    output.line("serving ", bold(number), f"{opened} at ", bold(address), f"; {verb} one: ", nowrap(hint))
    if exposure is not None:
        output.note(warning(exposure[0]), exposure[1])
    if announced:
        output.note("announced at ", nowrap(", ".join(announced)))
    if no_workers and any(skill.action is not None for skill in revision.everything.skills.values()):
        output.note(warning("no workers: "), "accepted calls wait for ", nowrap("skillwire worker"))
    events.begin({
        "schema": "skillwire/serve/1", "event": "listening", "address": address, "announced": [*announced],
        "base_url": where, "skills": every, "open": revision.skills, "add": hint,
    })  # fmt: skip


def read_dht(configured: LanSettings | None, *, dht: bool, discovery: str | None) -> LanSettings | None:
    """Return the settings of the DHT; None without ``--dht`` where the server's configuration does not enable it."""
    if not dht and (configured is None or not configured.dht.enabled):
        return None
    return discovery_settings(configured, discovery)


def read_lan(
    configured: LanSettings | None,
    *,
    lan: bool,
    interfaces: Sequence[str],
    discovery: str | None,
    scenes: Sequence[str] = (),
    dht: bool = False,
) -> LanSettings | None:
    """Return the settings of the local network; None without ``--lan``.

    The file of ``--discovery`` replaces the server's configuration, which replaces the user's settings; ``--interface``
    overrides all of them.
    """
    if not lan:
        if interfaces or scenes or (discovery is not None and not dht):
            name = "--interface" if interfaces else "--scene" if scenes else "--discovery"
            raise UsageError("USAGE", f"{name} requires --lan", fix="Add --lan.")
        return None
    return lan_settings(configured, discovery, interfaces)


def read_goodbye_reason(config: str | None, discovery: str | None) -> Reason:
    """Return the goodbye reason in the files of ``--config`` and ``--discovery`` as the operator has edited them."""
    return discovery_settings(read_configuration(config).discovery if config else None, discovery).goodbye_reason


def exposure_warning(
    lan: LanSettings | None, host: str | None, listeners: Sequence[socket], *, is_dht: bool = False
) -> tuple[str, str] | None:
    """Return a warning about the machines that reach a server, and its remedy; None for none."""
    if lan is not None and host is None:
        return "open to the network: ", "on all addresses of this machine; --host restricts it"
    addresses = [ip_address(one.getsockname()[0]) for one in listeners]
    if lan is None:
        if all(address.is_loopback for address in addresses):
            return None
        where = "all addresses" if addresses[0].is_unspecified else str(addresses[0])
        return "open to the network: ", f"on {where} of this machine; leave out --host to serve this machine alone"
    if not lan.interfaces and all(address.is_loopback for address in addresses):
        if is_dht:
            fix = "leave out --host, or name the address that others reach: --base-url URL"
            return "not announced to others: ", f"no other machine reaches {host}; {fix}"
        return "announced to this machine only: ", f"no other machine reaches {host}; leave out --host to serve others"
    return None


def base_url_warning(base_url: str | None, listeners: Sequence[socket]) -> tuple[str, str] | None:
    """Return a warning that a server does not listen at its base URL, and its remedy; None for none.

    A host name, an address of another machine, another port and https may be those of a proxy.
    """
    base = None if base_url is None else parse_url(base_url)
    places = [one.getsockname()[:2] for one in listeners]
    if base is None or base.scheme == "https":
        return None
    if any(base.port != port or host in {base.host, "0.0.0.0", "::"} for host, port in places):  # noqa: S104  # everywhere
        return None
    try:
        is_ours = base.host in {one.host for one in sockets.present()}
    except (OSError, UsageError):  # they cannot be listed
        return None
    everywhere = "::" if ":" in base.host else "0.0.0.0"  # noqa: S104  # what the user is advised to choose
    why = f"the server listens on {places[0][0]} alone; unless a proxy listens there, add --host {everywhere}"
    return (f"not reached at {base_url}: ", why) if is_ours else None


def announced_at(lan: LanSettings | None, listeners: Sequence[socket]) -> list[str]:
    """Return the URLs announced on the local network, one for each current interface."""
    if lan is None:
        return []
    from skillwire.server.lan.service import advertised_address  # noqa: PLC0415  # takes a while to import

    endpoint, fitting = advertised_address(lan, [one.getsockname()[:2] for one in listeners])
    try:
        links = sockets.links(sockets.present(), fitting.interfaces, has_ipv6=bool(fitting.group6))
    except (OSError, UsageError):  # the log says why the server is not on the network
        return []
    hosts = dict.fromkeys([endpoint.host] if endpoint.host and links else [one.host for one in links])
    return [f"http://{host_and_port(host, endpoint.port)}" for host in hosts]


@click.command(cls=_ServerCommand, prefix="SKILLWIRE_WORKER_")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Configuration file of the server whose executions it runs.",
)
@click.option(
    "--workers", type=click.IntRange(1, 1000), metavar="NUMBER", help="Maximum number of concurrent executions."
)
@click.option("--grant-all", is_flag=True, help="Run every skill without a grant; see skillwire grant.")
@click.option("--store", metavar="URL", default="", help=_STORE)
@log_format_option
@output_options
def worker_command(
    *, output: Output, config: str | None, workers: int | None, grant_all: bool, store: str, log_format: str
) -> None:
    """Run executions that servers on this machine accepted, until Ctrl-C.

    It serves servers with the same --config, or without one, and shares their executions with other workers; each
    execution runs once. With skillwire serve --workers 0 the server only accepts calls, so that executions do not slow
    it down. Skills that are functions of a program run only in that program.
    """
    from skillwire.server.app import make_worker  # noqa: PLC0415  # takes a while to import

    worker_command.warn_of_variables(output, os.environ)
    configuration = configure_server(config, log_format, grant_all=grant_all, workers=workers)
    if not configuration.executions.concurrency:  # with that the file leaves them all to workers, such as this one
        executions = replace(configuration.executions, concurrency=ExecutionSettings().concurrency)
        configuration = replace(configuration, executions=executions)
    number = configuration.executions.concurrency

    def ready() -> None:
        output.document(
            {"schema": "skillwire/worker/1", "workers": number, "grant_all": configuration.executions.grant_all}
        )
        output.line(f"running, at most {number} executions at once; Ctrl-C stops")

    make_worker(configuration, store).run(on_ready=ready)
    if not (output.as_json or output.quiet):
        print_end("stopped")


def configure_server(
    path: str | None,
    log_format: str,
    on_event: Callable[[Mapping[str, Any]], object] = lambda _: None,
    *,
    grant_all: bool,
    workers: int | None,
) -> ServerConfiguration:
    """Configure the log, and return the configuration file at ``path``, if any, with the command line's options."""
    from skillwire.server import configuration, log  # noqa: PLC0415  # heavy

    log.configure_logging(log_format, on_event)
    log.configure_telemetry()
    chosen = configuration.ServerConfiguration() if path is None else read_configuration(path)
    executions = chosen.executions
    if grant_all:
        executions = replace(executions, grant_all=True)
    if workers is not None:
        executions = replace(executions, concurrency=workers)
    return replace(chosen, executions=executions)


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--execute", is_flag=True, help="Let execute_skill run granted skills; see skillwire grant.")
@click.option("--grant-all", is_flag=True, help="With --execute, run every skill in these folders without a grant.")
@click.option("--run-code", is_flag=True, help="Let run_code run arbitrary code in the sandbox.")
@server_config_option
@publisher_option
@log_format_option
def rpc_command(
    *,
    folders: tuple[str, ...],
    execute: bool,
    grant_all: bool,
    run_code: bool,
    config: str | None,
    publisher: str,
    log_format: str,
) -> None:
    """Serve the Skills Protocol to the program that starts this command, on standard input and output.

    Each input line is a JSON-RPC 2.0 request or a batch, and each output line a response; logs go to standard error.
    The command ends with its input. skillwire serve offers the same over HTTP at /rpc.
    """
    configuration = configure_server(config, log_format, grant_all=grant_all, workers=None)
    runs = configuration.runs
    runs = replace(runs, execute_skill=execute or runs.execute_skill, run_code=run_code or runs.run_code)
    configuration = replace(configuration, runs=runs)
    from skillwire.server.stdio import serve_rpc  # noqa: PLC0415  # takes a while to import

    lines = lines_of(0, limits.RPC_REQUEST_BYTES)
    serve_rpc(folders, configuration, lines, lambda descriptor: LineWriter(descriptor).write, publisher=publisher)
