"""``skillwire top``: the executions of a server and the health of the local network, live.

The executions are those in the state directory of this machine, or with URL those that a server lists at
``/executions.json`` for the stored credential. The local network is heard by an agent of this command's own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.lan import discovery_option, lan_settings, make_agent, run_until_stopped
from skillwire.cli.lan_view import Screen, fit, lan_object, picture, text_of
from skillwire.cli.options import (
    Duration,
    LazyModule,
    ago,
    chosen_stores,
    shortened,
    store_option,
    token_option,
    utc_time,
)
from skillwire.cli.output import Output, Part, bold, dim, failure, output_options, success, warning
from skillwire.cli.picker import MOVES, read_keys, single_keys
from skillwire.errors import SkillwireError, one_line
from skillwire.model.execution import ExecutionQuery

if TYPE_CHECKING:
    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client import server_lists
    from skillwire.executions import view
    from skillwire.executions.view import ExecutionList
else:  # load msgspec
    server_lists = LazyModule("client.server_lists")
    view = LazyModule("executions.view")

_STATUS: Final[Mapping[str, Callable[[object], Part]]] = {
    "accepted": dim, "running": bold, "completed": success, "failed": failure, "timeout": warning,
}  # fmt: skip
_SHORT: Final = len("exec-") + 12
_LAN_SHARE: Final = 2  # the local network gets at most this part of the lines


@click.command()
@click.argument("server", metavar="[URL]", required=False)
@click.option("--once", is_flag=True, help="Print the current state and exit; the default without a terminal.")
@click.option("--every", type=Duration("2s", is_positive=True), default="2s", show_default=True, metavar="TIME",
              help="Read the executions at this interval.")  # fmt: skip
@click.option("--lan/--no-lan", default=True, help="Show the local network, too.")
@token_option
@store_option
@discovery_option
@output_options
def command(
    *, output: Output, server: str | None, once: bool, every: float, lan: bool, token: str | None, discovery: str | None
) -> None:
    """Show the executions and the local network live, until q or Ctrl-C; arrows scroll.

    Without URL the executions are those of the servers on this machine. With URL they are those that its server lists
    for your credential: all of them for a key of the scope operator, otherwise your own. --json prints one document.
    """
    settings = lan_settings(None, discovery) if lan else None
    shown = _View(output, server, token, None if settings is None else make_agent(settings))
    is_once = once or output.as_json or not Screen.is_possible()
    asyncio.run(shown.print_once() if is_once else run_until_stopped(shown.show(every), shown.stopped))


class _View:
    """The state that is shown: executions, the local network, and why one of them cannot be read."""

    def __init__(self, output: Output, server: str | None, token: str | None, agent: LanAgent | None) -> None:
        self.stopped = asyncio.Event()
        self._output, self._server, self._token = output, server, token
        self._agent: LanAgent | None = agent
        self._stores = chosen_stores()
        self._listed = view.list_executions((), {}, time.time())
        self._errors: dict[str, str] = {}
        self._first = 0
        self._is_complete = False  # whether all agents had time to answer

    async def print_once(self) -> None:
        """Print the state once; raise the error of executions that cannot be read."""
        async with AsyncExitStack() as stack:
            await self._join(stack)
            if self._agent is not None:
                await self._listen(self._agent)
            self._listed = await self._read()
            snapshot = None if self._agent is None else self._agent.snapshot()
        self._output.document({
            "schema": "skillwire/top/1", "at": utc_time(self._listed.at),
            "counts": {str(status): number for status, number in self._listed.counts.items()},
            "executions": self._listed.executions,
            "skills": [] if snapshot is None else [lan_object(skill) for skill in snapshot.skills],
            "notes": list(self._errors.values()),
        })  # fmt: skip
        self._output.line(*self._counts())
        self._output.table(self._rows())
        if snapshot is not None and self._agent is not None:
            for line in picture(snapshot, Screen.size()[0], port=self._agent.settings.port):
                self._output.verbatim(*line)
        for text in self._errors.values():
            self._output.note(warning("note: "), text)

    async def show(self, every: float) -> None:
        """Draw the state until q or a signal."""
        async with AsyncExitStack() as stack:
            await self._join(stack)
            asking = None if self._agent is None else asyncio.create_task(self._listen(self._agent))
            pressed = asyncio.Event()
            with Screen() as screen, _keys(lambda keys: self._press(keys, pressed)):
                due = 0.0
                while not self.stopped.is_set():
                    if (now := time.monotonic()) >= due:
                        due = now + every
                        await self._refresh()
                    screen.draw(self._lines(screen.size()))
                    pressed.clear()
                    waits = [asyncio.create_task(event.wait()) for event in (pressed, self.stopped)]
                    await asyncio.wait(waits, timeout=max(due - time.monotonic(), 0), return_when="FIRST_COMPLETED")
                    for wait in waits:
                        wait.cancel()
            if asking is not None:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    async def _listen(self, agent: LanAgent) -> None:
        await agent.discover()
        await agent.adopt_group_orders()
        self._is_complete = True

    async def _join(self, stack: AsyncExitStack) -> None:
        try:
            if self._agent is not None:
                await stack.enter_async_context(self._agent)
        except SkillwireError as error:
            self._agent, self._errors["lan"] = None, one_line(error)

    async def _refresh(self) -> None:
        try:
            self._listed = await self._read()
            self._errors.pop("executions", None)
        except SkillwireError as error:  # the server may come back
            self._errors["executions"] = one_line(error)

    async def _read(self) -> ExecutionList:
        """Return the executions: from the server, or from the database on this machine."""
        if self._server is not None:
            return await server_lists.read_executions(self._server, self._token)
        if not self._stores.exists:
            return view.list_executions((), {}, time.time())
        ledger = self._stores.ledger
        found = (await ledger.search(ExecutionQuery())).executions
        return view.list_executions(found, await ledger.count(), time.time())

    def _press(self, keys: Sequence[str], pressed: asyncio.Event) -> None:
        if not {"q", "\x1b", ""}.isdisjoint(keys):
            self.stopped.set()
        moved = self._first + sum(MOVES.get(key, 0) for key in keys)
        self._first = max(0, min(moved, len(self._listed.executions) - 1))
        pressed.set()

    def _counts(self) -> list[Part]:
        counts = ", ".join(f"{number:,} {status}" for status, number in self._listed.counts.items() if number)
        return [bold("executions"), f"  {counts or 'none'}", dim(f"  {self._server or 'this machine'}")]

    def _rows(self) -> Iterator[list[Part]]:
        now = self._listed.at
        for one in self._listed.executions:
            taken, status = (one.completed or now) - one.created, _STATUS.get(one.status, bold)(one.status)
            yield [f"  {one.execution_id[:_SHORT]}", status, bold(one.skill), one.version,
                   f"{ago(now - one.created)} ago", f"{taken:.1f} s", dim(shortened(one.caller, 30))]  # fmt: skip

    def _lines(self, size: tuple[int, int]) -> list[list[Part]]:
        columns, height = size
        network: list[list[Part]] = []
        if self._agent is not None:
            port, is_complete = self._agent.settings.port, self._is_complete
            network = [[], *picture(self._agent.snapshot(), columns, is_complete=is_complete, port=port)]
        foot: list[list[Part]] = [[warning(shortened(text, columns))] for text in self._errors.values()]
        foot.append([dim("q quits, arrows scroll")])
        room = max(height - len(foot) - 1 - min(len(network), height // _LAN_SHARE), 1)
        rows = [*self._rows()]
        widths = [max([0, *(len(text_of(row[at])) for row in rows)]) for at in range(6)]
        shown = [
            [part for cell, width in zip(row, [*widths, 0], strict=True)
             for part in (cell, " " * (max(width - len(text_of(cell)), 0) + 2))]
            for row in rows[self._first : self._first + room]
        ]  # fmt: skip
        lines = [fit(self._counts(), columns), *(fit(line, columns) for line in shown)]
        lines += network[: height - len(foot) - len(lines)]
        return [*lines, *([[]] * (height - len(foot) - len(lines))), *foot][:height]


@contextmanager
def _keys(press: Callable[[Sequence[str]], None]) -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()
    with single_keys() as terminal:
        loop.add_reader(terminal, lambda: press(read_keys(terminal)))
        try:
            yield
        finally:
            loop.remove_reader(terminal)
