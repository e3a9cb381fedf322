"""``skillwire dht``: a node of the DHT, its state, and the four operations of SDP 6.3."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypedDict

import click

from skillwire.cli.lan import discovery_option, discovery_settings, run_until_stopped
from skillwire.cli.lan_view import check_names
from skillwire.cli.options import CommandGroup, LazyModule, ago, combine, open_client, plural, timeout_option
from skillwire.cli.output import bold, dim, output_options, print_end, success, warning
from skillwire.errors import SourceLocation, UsageError

if TYPE_CHECKING:
    from typing import Unpack

    from skillwire.adapters import dht
    from skillwire.adapters.dht import agent as node
    from skillwire.cli.documents_run import DhtFindDocument, DhtPingDocument, DhtPutFields, DhtStatusDocument
    from skillwire.cli.output import Output, Part
    from skillwire.client.dht import Client, Match
    from skillwire.model.lan import DhtAnswer, DhtPut
    from skillwire.protocols.skill_discovery.dht import records
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.sources import dht as source
else:  # load sockets and cryptography
    node = LazyModule("adapters.dht.agent")
    dht = LazyModule("adapters.dht")
    records = LazyModule("protocols.skill_discovery.dht.records")
    source = LazyModule("resolver.sources.dht")

_SHOWN: Final = 4  # nodes in a line of a bucket
_PRIVATE_FIX: Final = 'Make it public at its server: set access = "public" in its skill.toml.'


class _Entry(TypedDict):
    """How a command gets into the DHT, and the seconds that its answer may take."""

    bootstrap: tuple[str, ...]
    discovery: str | None
    timeout: float


_bootstrap_option = click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    multiple=True,
    help="Bootstrap node, in place of those of the settings; repeatable.",
)
_timeout_option = timeout_option("Time limit for the answer, such as 30s.", default="5s")
_options = combine(_bootstrap_option, discovery_option, _timeout_option, output_options)
_capability_option = click.option(
    "--capability", "capabilities", metavar="NAME", multiple=True, callback=check_names, help="Capability; repeatable."
)
_skill_argument = click.argument("skill_id", metavar="SKILL", callback=check_names)


@click.group(cls=CommandGroup)
def command() -> None:
    """Find and announce skills in the DHT, a network of nodes without a central server.

    A bootstrap node leads into it: --bootstrap, or bootstrapNodes in [discovery.dht]. Servers announce their public
    skills with skillwire serve --dht; find, show, add and call use the DHT where the settings enable it.
    """


def _client(entry: _Entry) -> Client:
    from skillwire.client.dht import Client  # noqa: PLC0415  # --help does without

    return Client(bootstrap=entry["bootstrap"], settings=discovery_settings(None, entry["discovery"]))


@command.command()
@click.option("--port", type=click.IntRange(0, 65535), help="UDP port; that of the settings by default, 6881.")
@_bootstrap_option
@discovery_option
@output_options
def serve(*, output: Output, port: int | None, bootstrap: tuple[str, ...], discovery: str | None) -> None:
    """Run a node that serves no skills, until Ctrl-C: a bootstrap node for others.

    The first node of a DHT needs no bootstrap node. It keeps its key, its port and the nodes that it knows.
    """
    settings = source.with_bootstrap(discovery_settings(None, discovery), bootstrap, is_required=False)
    if port is not None:
        settings = replace(settings, dht=replace(settings.dht, port=port))
    asyncio.run(_serve(output, settings))
    if not (output.as_json or output.quiet):
        print_end("stopped")


async def _serve(output: Output, settings: LanSettings) -> None:
    def warn(trouble: str) -> None:
        output.note(warning("warning: "), trouble)

    async with node.DhtAgent(settings, on_trouble=warn) as agent:
        state = agent.status()
        addresses = list(state.addresses)
        output.document({"schema": "skillwire/dht-serve/1", "node_id": state.node_id, "addresses": addresses})
        output.line("node ", bold(state.node_id[:16]), " at ", bold(", ".join(addresses)), "; Ctrl-C stops")
        if not settings.dht.bootstrap:
            output.note(dim("the first node: "), "others join with --bootstrap and one of these addresses")
        stopped = asyncio.Event()
        await run_until_stopped(stopped.wait(), stopped)


@command.command()
@_options
def status(*, output: Output, **entry: Unpack[_Entry]) -> None:
    """Show the node of this machine: nodes by distance, records, and bootstrap nodes.

    A running dht serve or serve --dht writes its state every few seconds. Without one, or with --bootstrap, this
    command joins as a node of its own for a moment, and shows what that one meets.
    """
    kept = None if entry["bootstrap"] else dht.read_status()
    if kept is not None:
        process, state = kept
        origin = f"process {process}, at {', '.join(state.addresses)}"
    else:
        with _client(entry) as client:
            client.find_by_capability(["status"], timeout=entry["timeout"])
            process, state = None, client.status()
        origin = "a node that joined for this command"
    document: DhtStatusDocument = ({"schema": "skillwire/dht-status/1", "process": process}, state)
    output.document(document)
    output.line("node     ", bold(state.node_id), dim(f"  profile {state.profile}"))
    output.line("source   ", origin)
    output.line("nodes    ", bold(str(state.nodes)), f" in {plural(len(state.buckets), 'bucket')}")
    for bucket in state.buckets:
        more = f", and {len(bucket.nodes) - _SHOWN} more" if len(bucket.nodes) > _SHOWN else ""
        nodes = dim(f"{', '.join(bucket.nodes[:_SHOWN])}{more}")
        output.line("  ", dim(f"{bucket.prefix:>3} bits shared  "), f"{len(bucket.nodes)}  ", nodes)
    output.line("records  ", bold(str(state.held)), f" held for others, {state.held_bytes:,} bytes")
    for own in state.own:
        when = f"{ago(time.time() - own.last_put)} ago on {plural(own.stored, 'node')}" if own.last_put else "not yet"
        output.line("put      ", bold(own.skill_id), f" {own.version}  ", when)
    for address, answers in state.bootstrap:
        output.line(
            "entry    bootstrap node ", address, "  ", success("answers") if answers else warning("does not answer")
        )


@command.command()
@click.argument("reference")
@_capability_option
@_options
def put(*, output: Output, reference: str, capabilities: tuple[str, ...], **entry: Unpack[_Entry]) -> None:
    """Announce the published skill REFERENCE for ten minutes, signed with the key of this machine's agent.

    Version, digest and capabilities are read at its server; --capability replaces the latter. A server announces its
    own skills, again and again, with serve --dht.
    """
    with open_client(output) as reader:
        ref = reader.show(reference).ref
    if ref.is_local or ref.digest is None or ref.version is None:
        message = f"{ref.name} is not published at an address with a version and a digest"
        fix = "Serve it, and name its address: skillwire dht put https://example.com/NAME."
        raise UsageError("USAGE", message, place=SourceLocation(ref.origin), fix=fix)
    able, access = capabilities or ref.capabilities, "public" if ref.shared is None else ref.shared.access
    offer = records.DhtOffer(ref.name, ref.version, "tool-skill", ref.origin, able, ref.scenes, str(ref.digest))
    with _client(entry) as client:
        if access == "private" or (access == "restricted" and not client.settings.dht.announces_restricted):
            message = f"{ref.name} is {access}, and every node of the DHT can read its record"
            fix = "Set announceRestricted = true in [discovery.dht]." if access == "restricted" else _PRIVATE_FIX
            raise UsageError("USAGE", message, place=SourceLocation(ref.origin), fix=fix)
        _print_put(output, ref.name, client.put(offer, timeout=entry["timeout"]), ref.version)


@command.command()
@_skill_argument
@click.argument("capability", required=False, callback=lambda *given: given[2] and check_names(*given))
@_options
def get(*, output: Output, skill_id: str, capability: str | None, **entry: Unpack[_Entry]) -> None:
    """Show the records of SKILL with CAPABILITY, or all records of that name."""
    with _client(entry) as client:
        answer = client.get(skill_id, capability or "", timeout=entry["timeout"])
    able = f" and offers {capability}" if capability else ""
    _print_answer(output, answer, f"has the name {skill_id}{able}")


@command.command()
@_capability_option
@click.option("--all/--any", "is_all", default=True, show_default=True, help="Skills with all capabilities, or any.")
@_options
def find(*, output: Output, capabilities: tuple[str, ...], is_all: bool, **entry: Unpack[_Entry]) -> None:
    """Find skills by capability; every capability is looked up."""
    if not capabilities:
        fix = "Name one: skillwire dht find --capability org-data-read."
        raise UsageError("USAGE", "no capability is named", fix=fix)
    match: Match = "all" if is_all else "any"
    with _client(entry) as client:
        answer = client.find_by_capability(capabilities, match=match, timeout=entry["timeout"])
    _print_answer(output, answer, f"offers {(' and ' if is_all else ' or ').join(capabilities)}")


@command.command()
@_skill_argument
@_capability_option
@_options
def remove(*, output: Output, skill_id: str, capabilities: tuple[str, ...], **entry: Unpack[_Entry]) -> None:
    """Remove this machine's record of SKILL, by a signed tombstone that outlives it.

    Its capabilities are those of the record; --capability names others.
    """
    with _client(entry) as client:
        _print_put(output, skill_id, client.remove(skill_id, capabilities, timeout=entry["timeout"]), None)


@command.command()
@click.argument("address", metavar="HOST:PORT")
@_options
def ping(*, output: Output, address: str, **entry: Unpack[_Entry]) -> None:
    """Ask the node at HOST:PORT for its certificate; show its id, agent, trust and round trip."""
    place = source.read_node(address)
    with _client({**entry, "bootstrap": entry["bootstrap"] or (address,)}) as client:
        pong = client.ping(*place, timeout=entry["timeout"])
    document: DhtPingDocument = ({"schema": "skillwire/dht-ping/1", "address": address}, pong)
    output.document(document)
    trust = success(pong.trust) if pong.trust == "verified" else warning(pong.trust)
    output.line(bold(pong.agent_id), f"  {pong.seconds * 1000:.1f} ms  ", trust, dim(f"  node {pong.node_id}"))


def _print_answer(output: Output, answer: DhtAnswer, wanted: str) -> None:
    if not answer.skills:
        raise source.not_offered(wanted, [answer])
    rows, now = list[list["Part"]](), time.time()
    for skill in answer.skills:
        trust = success(skill.trust) if skill.trust == "verified" else warning(skill.trust)
        facts = (dim(skill.version), trust, dim(f"{ago(now - skill.announced)} ago"), dim(skill.agent_id))
        rows.append([bold(skill.skill_id), *facts, skill.endpoint, ", ".join(skill.capabilities)])
    document: DhtFindDocument = ({"schema": "skillwire/dht-find/1"}, answer)
    output.document(document)
    output.table(rows)
    output.note(
        dim(f"{plural(answer.asked, 'node')} answered in {answer.seconds * 1000:.0f} ms{source.unreached([answer])}")
    )


def _print_put(output: Output, skill_id: str, done: DhtPut, version: str | None) -> None:
    """Print that a skill was put in a version, or removed without one."""
    fields: DhtPutFields = {"schema": "skillwire/dht-put/1", "skill_id": skill_id, "removed": version is None}
    output.document((fields, done))
    verb, shown = ("put", f" {version}") if version else ("removed", "")
    output.line(success(verb), " ", bold(skill_id), shown, f"  on {plural(done.stored, 'node')}")
    if missing := source.unreached([done]):
        output.note(dim(missing.removeprefix("; ")))
