"""``skillwire lan``: who is on the local network, live.

What ``lan --json`` prints: one JSON object a line, written out at once.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from skillwire.cli.lan_view import Screen, counted, lan_object, live_picture, picture, scene_lines, scene_object, table
from skillwire.cli.output import dim, encode_document, output_options, print_end, terminal_columns
from skillwire.cli.progress import Progress
from skillwire.model.lan import FoundVia

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from types import TracebackType
    from typing import Self

    from skillwire.cli.output import Output
    from skillwire.model.lan import LanChange, LanSkill, LanSnapshot
    from skillwire.protocols.skill_discovery.settings import LanSettings


_SCHEMA: Final = "skillwire/lan/1"


def snapshot_document(snapshot: LanSnapshot) -> dict[str, Any]:
    """Return all that is known."""
    return {
        "schema": _SCHEMA,
        "event": "snapshot",
        "at": snapshot.at,
        "agent_id": snapshot.agent_id,
        "network_suspected": snapshot.is_suspected,
        "skills": [{**lan_object(skill), "version": skill.version} for skill in snapshot.skills],
        "scenes": [scene_object(scene) for scene in snapshot.scenes],
    }


def change_document(change: LanChange) -> dict[str, Any]:
    """Return one change."""
    document: dict[str, Any] = {"schema": _SCHEMA, "event": change.kind, "at": change.at}
    if change.skill is not None:
        document["skill"] = {**lan_object(change.skill), "version": change.skill.version}
    if change.reason:
        document["reason"] = change.reason
    if change.scene is not None:
        document["scene"] = scene_object(change.scene)
    return document


def print_event(document: dict[str, Any]) -> None:
    """Print a document in one line, and let it be seen at once."""
    click.echo(encode_document(document, indent=None))


_TICK: Final = 1.0
#: Seconds between two drawings, however much happens.
_PAUSE: Final = 0.2
_TOLD: Final = 4
_SIGNAL: Final = 128
#: Skills that are heard of while answers are collected; of more, more may come.
_FEW: Final = 50
#: Seconds that very many may take, and in which some of them come.
_MANY_TAKE: Final = 8.0
_MANY_PAUSE: Final = 0.7


class Agent(Protocol):
    """What the command needs of :class:`skillwire.adapters.lan.agent.LanAgent`."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def discover(self, *, patience: float | None = None) -> tuple[LanSkill, ...]:
        """Ask for everything."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is told."""

    def snapshot(self) -> LanSnapshot:
        """Return what is known."""

    def listen(self) -> AsyncIterator[LanChange]:
        """Yield what happens from now on."""


@click.command()
@click.option("--once", is_flag=True, help="Print what is there now, and end; so it does where no terminal is.")
@click.option("--for", "seconds", type=click.FloatRange(min=0.1), metavar="SECONDS", help="End after so long.")
@click.option(
    "--interface", "interfaces", multiple=True, metavar="NAME", help="Network interface, or its address, to listen on."
)
@click.option(
    "--discovery",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="How the network is spoken: YAML as Skill Discovery writes it, or TOML; in place of [discovery] elsewhere.",
)
@output_options
def command(
    *, output: Output, once: bool, seconds: float | None, interfaces: tuple[str, ...], discovery: str | None
) -> None:
    """Show the agents of the local network, their skills, how these are, and the scenes they provide.

    On a terminal the picture follows what happens until Ctrl-C. Health is what a skill says of itself, or UNHEALTHY
    when it is silent; unverified is who is certified by nobody that you trust; stale is who fell silent together with
    so many others that the network is suspected. In a pipe, answers are waited for, and printed once.

    With --json each line is a document: first all that is there, then each change, until Ctrl-C.
    """
    from skillwire.cli.serve_lan import read_lan  # noqa: PLC0415  # --help does without

    settings = read_lan(None, lan=True, interfaces=interfaces, discovery=discovery)
    assert settings is not None  # noqa: S101  # only without a network it is
    for note in settings.notes:
        output.note(dim("note: "), note)
    view = _View(output, make_agent(settings), settings, seconds)
    if output.as_json:
        run = view.stream(is_once=once)
    elif once or not Screen.is_possible():
        run = view.show_once()
    else:
        run = view.show()
    with suppress(KeyboardInterrupt):  # pressed before the loop could take it
        ended_by = asyncio.run(_until_told(run, view.told))
        if ended_by not in {None, signal.SIGINT}:
            print_end("ended by a signal")
            raise click.exceptions.Exit(_SIGNAL + int(ended_by or 0))


def make_agent(settings: LanSettings) -> Agent:
    """Return an agent that asks, and keeps a registry of what it hears; it offers nothing, and answers nobody."""
    from skillwire.adapters.lan.agent import LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy
    from skillwire.protocols.skill_discovery.node import Role  # noqa: PLC0415  # same

    return LanAgent(settings, roles=frozenset({Role.END_AGENT, Role.OBSERVER}), keeps_state=False)


async def _until_told(run: Awaitable[None], told: asyncio.Event) -> signal.Signals | None:
    """Run to the end, or until a signal, which is returned; what is under way ends orderly then."""
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        came.append(number)
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    await run
    return came[0] if came else None


class _View:
    """One look at the network.

    Args:
        output: where it is told.
        agent: that has not begun.
        settings: how it is looked; of its notes it was told.
        seconds: after which all ends; None for no end.
    """

    def __init__(self, output: Output, agent: Agent, settings: LanSettings, seconds: float | None) -> None:
        self.told = asyncio.Event()
        self._output = output
        self._agent = agent
        self._patience = settings.figures.patience
        self._told_notes = settings.notes
        self._seconds = seconds

    async def show_once(self) -> None:
        """Wait for answers, and print what is there."""
        progress = Progress(shown=not self._output.quiet)
        async with self._agent as agent:
            with progress.waiting("listening on the local network"):
                await self._collect(agent)
            snapshot = agent.snapshot()
            self._tell_notes(agent)
        columns = terminal_columns(sys.stdout)
        if columns is not None:
            for line in picture(snapshot, columns):
                self._output.verbatim(*line)
        elif snapshot.skills:
            self._output.table(table(snapshot))
            for line in scene_lines(snapshot):
                self._output.verbatim(*line)
            self._output.note(counted(snapshot))
        else:
            self._output.note("nobody offers a skill on the local network")
            self._output.hint("offer yours:", "skillwire serve FOLDER --lan")

    async def show(self) -> None:
        """Draw what is there until something ends it; leave the last picture."""
        async with self._agent as agent:
            happened: deque[LanChange] = deque(maxlen=_TOLD)
            woken = asyncio.Event()
            told = asyncio.create_task(self._hear(agent, happened, woken))
            asked = asyncio.create_task(self._collect(agent))
            ending = asyncio.create_task(self._end())
            try:
                with Screen() as screen:
                    while not ending.done():
                        woken.clear()
                        lines = live_picture(agent.snapshot(), screen.size(), happened, is_complete=asked.done())
                        screen.draw(lines)
                        waiting = asyncio.create_task(woken.wait())
                        await asyncio.wait({waiting, ending}, timeout=_TICK, return_when=asyncio.FIRST_COMPLETED)
                        waiting.cancel()
                        for task in (told, asked):
                            if task.done():
                                task.result()  # what went wrong ends the picture, which would stand still
                        if not ending.done():
                            await asyncio.wait({ending}, timeout=_PAUSE)
            finally:
                for task in (told, asked, ending):
                    task.cancel()
                await asyncio.gather(told, asked, ending, return_exceptions=True)
            snapshot, size = agent.snapshot(), Screen.size()
            self._tell_notes(agent)
        for line in live_picture(snapshot, (size[0], size[1] - 1), happened, is_complete=True):
            self._output.verbatim(*line)

    async def stream(self, *, is_once: bool) -> None:
        """Print a document for what is there, and then one for each change."""
        async with self._agent as agent:
            ending = asyncio.create_task(self._end())
            await self._collect(agent)
            self._tell_notes(agent)
            changes = agent.listen()
            print_event(snapshot_document(agent.snapshot()))
            while not (is_once or ending.done()):
                next_one = asyncio.ensure_future(anext(changes))
                await asyncio.wait({next_one, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not next_one.done():
                    next_one.cancel()
                    break
                change = next_one.result()
                print_event(change_document(change))
                if change.kind == "missed":
                    print_event(snapshot_document(agent.snapshot()))
            ending.cancel()

    def _tell_notes(self, agent: Agent) -> None:
        """Tell what the agent has noticed by now, such as somebody with its name."""
        for note in (one for one in agent.notes if one not in self._told_notes):
            self._output.note(dim("note: "), note)

    async def _hear(self, agent: Agent, happened: deque[LanChange], woken: asyncio.Event) -> None:
        async for change in agent.listen():
            happened.append(change)
            woken.set()

    async def _collect(self, agent: Agent) -> None:
        """Ask everybody, and wait for answers: as long as was wanted, or until a signal."""
        asking = asyncio.create_task(agent.discover(patience=min(self._patience, self._seconds or self._patience)))
        told = asyncio.create_task(self.told.wait())
        await asyncio.wait({asking, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if not asking.done():
            asking.cancel()
        else:
            asking.result()
            await self._hear_many(agent)

    async def _hear_many(self, agent: Agent) -> None:
        """Wait while more are heard of very many: an agent that has them registers some 200 a second."""
        known = _FEW
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_MANY_TAKE, self._seconds or _MANY_TAKE)):
                while (count := _registered(agent.snapshot())) > known:
                    known = count
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.told.wait(), _MANY_PAUSE)
                        return

    async def _end(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self.told.wait()


def _registered(snapshot: LanSnapshot) -> int:
    """Return how many skills are heard of by more than a hint."""
    return sum(skill.found_via is not FoundVia.MDNS for skill in snapshot.skills)
