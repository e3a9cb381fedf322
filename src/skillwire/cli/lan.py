"""``skillwire lan``: a live view of the local network, or one JSON document a line, and trust in single keys."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from skillwire.adapters.files.settings_file import own_discovery, read_discovery_file
from skillwire.cli.lan_view import (
    UNHEARD,
    Screen,
    check_names,
    counted,
    lan_object,
    live_picture,
    picture,
    scene_lines,
    scene_object,
    table,
)
from skillwire.cli.options import CommandGroup, Duration, LazyModule, confirm
from skillwire.cli.output import (
    bold,
    dim,
    output_options,
    print_end,
    print_event,
    success,
    terminal_columns,
)
from skillwire.errors import FetchError, SourceLocation, TrustError, UsageError
from skillwire.model.lan import REVOKED, REVOKED_FIX, FoundVia
from skillwire.resolver.settings import DiscoverySource, join_discovery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from skillwire.adapters.files import keys, lan_trust
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.cli.documents import LanMissedEvent, LanSceneEvent, LanSkillEvent, LanSnapshotEvent, ListedLanSkill
    from skillwire.cli.output import Output
    from skillwire.model.lan import LanChange
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.trust import certificates, ecdsa, words
else:  # load cryptography
    keys = LazyModule("adapters.files.keys")
    lan_trust = LazyModule("adapters.files.lan_trust")
    certificates = LazyModule("trust.certificates")
    ecdsa = LazyModule("trust.ecdsa")
    words = LazyModule("trust.words")


_TICK: Final = 1.0
#: Seconds between two drawings, however much happens.
_PAUSE: Final = 0.2
_SHOWN_CHANGES: Final = 4
_SIGNAL: Final = 128
#: With more skills than this after the collection, later ones are awaited.
_FEW: Final = 50
#: Seconds that these take in total, and within which the next ones arrive.
_MANY_TAKE: Final = 8.0
_MANY_PAUSE: Final = 0.7

discovery_option = click.option(
    "--discovery",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Discovery configuration, YAML or TOML; replaces [discovery] in other files.",
)


def lan_settings(configured: LanSettings | None, discovery: str | None, interfaces: Sequence[str] = ()) -> LanSettings:
    """Return the settings of the local network; ``interfaces`` override those configured."""
    settings = discovery_settings(configured, discovery)
    if not (settings.multicast or settings.mdns):
        fix = "Set enabled = true in [discovery.udp] or [discovery.mdns], or serve without --lan."
        raise UsageError("USAGE", "--lan announces nothing: discovery.udp and discovery.mdns are not enabled", fix=fix)
    return replace(settings, interfaces=tuple(interfaces)) if interfaces else settings


def discovery_settings(configured: LanSettings | None, discovery: str | None) -> LanSettings:
    """Return the settings in the file of ``--discovery``, else the server's, else the user's."""
    if discovery is not None:
        named = DiscoverySource(discovery, SourceLocation(discovery), is_project=False)
        return join_discovery((named,), read_discovery_file)
    if configured is not None:
        return configured
    return own_discovery()


def make_agent(settings: LanSettings) -> LanAgent:
    """Return an agent that only queries and listens; it offers nothing."""
    from skillwire.adapters.lan.agent import ASKING, LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy

    return LanAgent(settings, roles=ASKING, keeps_state=False)


def _snapshot_event(agent: LanAgent) -> LanSnapshotEvent:
    snapshot = agent.snapshot()
    return {
        "schema": "skillwire/lan/1",
        "event": "snapshot",
        "at": snapshot.at,
        "agent_id": snapshot.agent_id,
        "network_suspected": snapshot.is_suspected,
        "notes": list(agent.notes),
        "skills": [{**lan_object(skill), "version": skill.version} for skill in snapshot.skills],
        "scenes": [scene_object(scene) for scene in snapshot.scenes],
    }


def change_document(change: LanChange) -> LanSkillEvent | LanSceneEvent | LanMissedEvent:
    """Return the line of one change."""
    if change.scene is not None:
        return {"schema": "skillwire/lan/1", "event": "scene", "at": change.at, "scene": scene_object(change.scene)}
    if change.skill is None or change.kind == "scene" or change.kind == "missed":  # noqa: PLR1714  # narrows the kind
        return {"schema": "skillwire/lan/1", "event": "missed", "at": change.at}
    skill: ListedLanSkill = {**lan_object(change.skill), "version": change.skill.version}
    event: LanSkillEvent = {"schema": "skillwire/lan/1", "event": change.kind, "at": change.at, "skill": skill}
    if change.reason:
        event["reason"] = change.reason
    return event


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--once", is_flag=True, help="Print the current state and exit; the default without a terminal.")
@click.option(
    "--for",
    "seconds",
    type=Duration("10s", is_positive=True),
    metavar="TIME",
    help="Stop after this time, such as 10s.",
)
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Network interface or address to listen on; repeatable.",
)
@discovery_option
@output_options
@click.pass_context
def command(
    context: click.Context,
    *,
    output: Output,
    once: bool,
    seconds: float | None,
    interfaces: tuple[str, ...],
    discovery: str | None,
) -> None:
    """Show the agents of the local network with their skills, health and scenes.

    On a terminal the view is updated until Ctrl-C; in a pipe, responses are collected and printed once. Health is as
    reported by the skill, or UNHEALTHY if it is silent. "unverified" marks agents without a certificate that you trust;
    "stale" marks agents that fell silent together with so many others that the network is suspected.

    With --json each line is a document: first the current state, then each change, until Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    settings = lan_settings(None, discovery, interfaces)
    view = _View(output, make_agent(settings), settings, seconds)
    if output.as_json:
        run = view.stream(is_once=once)
    elif once or not Screen.is_possible():
        run = view.show_once()
    else:
        run = view.show()
    with suppress(KeyboardInterrupt):  # pressed before the loop could take it
        ended_by = asyncio.run(run_until_stopped(run, view.stopped))
        if ended_by not in {None, signal.SIGINT}:
            print_end("stopped by a signal")
            raise click.exceptions.Exit(_SIGNAL + int(ended_by or 0))


async def run_until_stopped(run: Awaitable[object], stopped: asyncio.Event) -> signal.Signals | None:
    """Run to the end, or until a signal, which is returned after an orderly stop."""
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    await run
    return received[0] if received else None


class _View:
    """One view of the network by an agent that is not started yet; it ends after ``seconds``, if not None."""

    def __init__(self, output: Output, agent: LanAgent, settings: LanSettings, seconds: float | None) -> None:
        self.stopped = asyncio.Event()
        self._output = output
        self._agent = agent
        self._patience = settings.discovery.patience
        self._port = settings.port
        self._seconds = seconds

    async def show_once(self) -> None:
        """Collect responses, and print the state."""
        async with self._agent as agent:
            with self._output.progress.waiting("listening on the local network"):
                await self._collect(agent)
            snapshot = agent.snapshot()
            self._print_notes(agent)
        columns = terminal_columns(sys.stdout)
        if columns is not None:
            for line in picture(snapshot, columns, port=self._port):
                self._output.verbatim(*line)
        elif snapshot.skills:
            self._output.table(table(snapshot))
            for line in scene_lines(snapshot.scenes, None):
                self._output.verbatim(*line)
            self._output.note(counted(snapshot))
        else:
            self._output.note("no agent on the local network offers a skill")
            self._output.hint("offer your own:", "skillwire serve FOLDER --lan")
            self._output.hint(UNHEARD.format(self._port), "skillwire doctor")

    async def show(self) -> None:
        """Draw the state until the end; leave the last picture on the terminal."""
        async with self._agent as agent:
            happened: deque[LanChange] = deque(maxlen=_SHOWN_CHANGES)
            woken = asyncio.Event()
            heard = asyncio.create_task(self._hear(agent, happened, woken))
            asked = asyncio.create_task(self._collect(agent))
            ending = asyncio.create_task(self._end())
            try:
                with Screen() as screen:
                    while not ending.done():
                        woken.clear()
                        is_complete = asked.done()
                        known = agent.snapshot()
                        screen.draw(
                            live_picture(known, screen.size(), happened, is_complete=is_complete, port=self._port)
                        )
                        waiting = asyncio.create_task(woken.wait())
                        await asyncio.wait({waiting, ending}, timeout=_TICK, return_when=asyncio.FIRST_COMPLETED)
                        waiting.cancel()
                        for task in (heard, asked):
                            if task.done():
                                task.result()  # what went wrong ends the picture, which would stand still
                        if not ending.done():
                            await asyncio.wait({ending}, timeout=_PAUSE)
            finally:
                for task in (heard, asked, ending):
                    task.cancel()
                await asyncio.gather(heard, asked, ending, return_exceptions=True)
            snapshot, size = agent.snapshot(), Screen.size()
            self._print_notes(agent)
        for line in live_picture(snapshot, (size[0], size[1] - 1), happened, port=self._port):
            self._output.verbatim(*line)

    async def stream(self, *, is_once: bool) -> None:
        """Print a document for the state, then one for each change."""
        async with self._agent as agent:
            ending = asyncio.create_task(self._end())
            await self._collect(agent)
            self._print_notes(agent)
            changes = agent.listen()
            print_event(_snapshot_event(agent))
            while not (is_once or ending.done()):
                next_one = asyncio.ensure_future(anext(changes))
                await asyncio.wait({next_one, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not next_one.done():
                    next_one.cancel()
                    break
                change = next_one.result()
                print_event(change_document(change))
                if change.kind == "missed":
                    print_event(_snapshot_event(agent))
            ending.cancel()

    def _print_notes(self, agent: LanAgent) -> None:
        for note in agent.notes:
            self._output.note(dim("note: "), note)

    async def _hear(self, agent: LanAgent, happened: deque[LanChange], woken: asyncio.Event) -> None:
        async for change in agent.listen():
            happened.append(change)
            woken.set()

    async def _collect(self, agent: LanAgent) -> None:
        """Query all agents, and collect responses until the time is up or a signal comes.

        More responses are awaited while skills keep arriving: a large agent registers about 200 a second.
        """
        asking = asyncio.create_task(agent.discover(patience=min(self._patience, self._seconds or self._patience)))
        stopped = asyncio.create_task(self.stopped.wait())
        await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not asking.done():
            asking.cancel()
            return
        asking.result()
        await agent.adopt_group_orders()
        known = _FEW
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_MANY_TAKE, self._seconds or _MANY_TAKE)):
                # A skill that is known by an mDNS hint alone did not respond.
                while (count := sum(one.found_via is not FoundVia.MDNS for one in agent.snapshot().skills)) > known:
                    known = count
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.stopped.wait(), _MANY_PAUSE)
                        return

    async def _end(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self.stopped.wait()


@command.command("trust")
@click.argument("agent", required=False, callback=lambda *given: given[2] and check_names(*given))
@click.option(
    "--words", "expected", metavar="WORDS", help="The six words that AGENT shows; without them, you are asked."
)
@click.option("--forget", is_flag=True, help="Trust the key of AGENT no more.")
@discovery_option
@output_options
def trust(*, output: Output, agent: str | None, expected: str | None, forget: bool, discovery: str | None) -> None:
    """Trust the key of AGENT after comparing six words; without AGENT, show the words of this machine's agents.

    Run it without AGENT on the other machine, and compare the words there with those shown here. The key then counts as
    verified on this machine without an authority. A running server follows within seconds.
    """
    settings = lan_settings(None, discovery)
    if settings.group_key_file:
        raise UsageError("USAGE", "all agents share one group key", fix="Compare the files of the group key instead.")
    store = keys.LanKeys()
    trusted = store.trusted()
    if agent is None:
        own = lan_trust.load_trust(settings)
        key = certificates.read_key(own.identity.certificate)
        assert key is not None  # noqa: S101  # it is our own
        others = {one.agent_id(): ecdsa.digest_of(one.key().public_key()) for one in store.numbered()}
        _print_words(output, own.agent_id, key.digest, is_trusted=True, others=others)
        output.table([dim("trusted"), name] for name in sorted(trusted))
        return
    if forget:
        if agent not in trusted:
            raise UsageError("USAGE", f"no key of {agent} is trusted", fix="List them: skillwire lan trust.")
        store.keep_trusted(agent, None)
        _print_words(output, agent, trusted[agent], is_trusted=False)
        output.line(success("no longer trusted "), bold(agent))
        return
    digest = asyncio.run(_digest_of(settings, agent))
    shown = " ".join(words.words_of(digest))
    if expected is None:
        output.note(bold(agent), "  ", shown)
        agreed = confirm(f"Does skillwire lan trust on {agent} show the same six words?")
    else:
        agreed = expected.lower().split() == shown.split()
    if not agreed:
        message = f"the six words of {agent} were not confirmed; its key has the words {shown}"
        raise TrustError("DISC_004", message, fix=f"Run skillwire lan trust on {agent}, and pass its words: --words.")
    store.keep_trusted(agent, digest)
    _print_words(output, agent, digest, is_trusted=True)
    output.line(success("trusted "), bold(agent))


async def _digest_of(settings: LanSettings, agent_id: str) -> bytes:
    """Return the digest of an agent's key, which has to answer now."""
    async with make_agent(settings) as agent:
        await agent.discover()
        if (digest := agent.key_digest_of(agent_id)) is not None:
            return digest
        is_revoked = agent.is_revoked(agent_id)
    if is_revoked:
        message = f"{agent_id} cannot be trusted: {REVOKED}"
        raise TrustError("DISC_004", message, fix=REVOKED_FIX.format(agent=agent_id))
    message = f"no agent {agent_id} was heard"
    raise FetchError("DISC_001", message, fix="Start its server with --lan; skillwire lan lists the agents.")


def _print_words(
    output: Output, agent: str, digest: bytes, *, is_trusted: bool, others: Mapping[str, bytes] | None = None
) -> None:
    shown = {name: " ".join(words.words_of(key)) for name, key in {agent: digest, **(others or {})}.items()}
    output.document({
        "schema": "skillwire/lan-trust/1", "agent_id": agent, "words": shown[agent], "trusted": is_trusted,
        "others": [{"agent_id": name, "words": six} for name, six in shown.items() if name != agent],
    })  # fmt: skip
    output.table([bold(name), six] for name, six in shown.items())
