"""The stage of a flow: it starts processes, and prints their output and messages step by step.

A flow lists the steps of its figure in the text. Each event is compared with the next step: a matching one is printed
with its number, others without one, the first of each type. So the numbers are in the figure's order because the events
were, or the flow fails. A box of the figure happens inside an agent; the line that the agent prints then shows it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines import Machine

HERE = Path(__file__).resolve().parent
PATIENCE = 40.0  # seconds for the next step of a figure
ANY = ""  # who sends a step: the first agent, since every server keeps a registry and answers
_LONG = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_LAST = 8  # lines that were not shown, when a flow fails
_ASIDE = 72  # characters of a datagram that no figure draws
_REMEMBERED = 4096  # datagrams by whose sender an address gets its name


class Failed(Exception):
    """A flow went otherwise than its figure."""


class Event(NamedTuple):
    """Something that happened: a datagram that ``who`` sent, or a line that it printed (``kind`` is ``line``)."""

    kind: str
    who: str
    to: str
    text: str


class Step(NamedTuple):
    """A step of a figure: its number there, how it is called, and what says whether an event is it."""

    number: str
    words: str
    fits: Callable[[Event], bool]
    is_box: bool = False


def sent(number: str, kind: str, who: str, to: str = "all", *, having: str = "") -> Step:
    """Return the step that ``who``, or :data:`ANY`, sends a datagram of this kind to ``to``."""
    return Step(
        number,
        kind,
        lambda event: (
            (event.kind, event.who, event.to) == ("sent", who or event.who, to)
            and event.text.startswith(f"{kind}:")
            and having in event.text
        ),
    )


def box(words: str, who: str, *parts: str) -> Step:
    """Return a box of a figure, which is shown by a line that ``who`` prints, with all of these parts in it."""

    def fits(event: Event) -> bool:
        return (event.kind, event.who) == ("line", who) and all(part in event.text for part in parts)

    return Step("*", words, fits, is_box=True)


class Actor:
    """A process of a flow."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], *, is_shown: bool) -> None:
        self.name = name
        self.process = process
        self.is_shown = is_shown
        self.rest = b""


class Stage:
    """Plays one flow; a context manager, at whose end every process has ended.

    Args:
        folder: that is the flow's own; each process has a home below it.
        out: prints a line.
    """

    def __init__(self, folder: Path, out: Callable[[str], object]) -> None:
        self.folder = folder
        self._out = out
        self._steps: list[Step] = []
        self._done: set[int] = set()
        self._actors: list[Actor] = []
        self._selector = selectors.DefaultSelector()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._selector.register(self._read, selectors.EVENT_READ, None)
        self._rest = b""
        self._names: dict[str, str] = {}
        self._senders: dict[str, str] = {}
        self._seen: set[str] = set()
        self._more: Counter[str] = Counter()
        self._early: list[Event] = []
        self._sent: list[Event] = []
        self.lines: list[Event] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            self.stop(actor, quietly=True)
        self._selector.close()
        os.close(self._read)
        os.close(self._write)
        if self._more:
            counted = ", ".join(f"{count} {kind}" for kind, count in sorted(self._more.items()))
            self._out(f"     (and others of the same types: {counted})")

    def figure(self, *steps: Step) -> None:
        """Say which steps are to come."""
        self._steps += steps

    def home(self, name: str, configuration: str = "") -> Path:
        """Return the home of a process, with a configuration for commands and for ``serve --config``."""
        home = self.folder / name.lower()
        (home / "config").mkdir(parents=True, exist_ok=True)
        if configuration:
            (home / "config" / "skillwire.toml").write_text(configuration)
        return home

    def folder_of(self, name: str) -> Path:
        """Return the folder in which a process works, with copies of the example's skills and of its consumer."""
        place = self.home(name) / "work"
        if not place.exists():
            shutil.copytree(HERE, place, ignore=shutil.ignore_patterns("__pycache__", "README.md"))
        return place

    def start(self, name: str, machine: Machine, command: str, *, shows: bool = True, quietly: bool = False) -> Actor:
        """Start a command on a machine; what it prints is shown where it is no step only if ``shows``."""
        words = shlex.split(command)
        if not quietly:
            self._out(f"   {name}$ {_shown(words, self.folder)}")
        program = [sys.executable, str(HERE / "traced.py"), str(self._write), name, *words]
        process = subprocess.Popen(
            machine.command(program),
            cwd=self.folder_of(name),
            env={**os.environ, "SKILLWIRE_HOME": str(self.home(name)), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[self._write],
        )
        actor = Actor(name, process, is_shown=shows)
        self._actors.append(actor)
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, actor)
        return actor

    def run(self, name: str, machine: Machine, command: str, *, expect: int = 0) -> str:
        """Run a command to its end; return what it printed."""
        before = len(self.lines)
        actor = self.start(name, machine, command)
        self.until(lambda: actor.process.poll() is not None, f"{command} ends")
        self._drain(actor)
        if actor.process.returncode != expect:
            raise Failed(f"{command} ended with {actor.process.returncode}, not {expect}")
        return "\n".join(event.text for event in self.lines[before:] if event.who == name)

    def wait_for(self, actor: Actor, text: str) -> str:
        """Wait until a process has printed a line with this; return the line."""
        self.until(
            lambda: self.has_said(actor.name, text) or actor.process.poll() is not None, f"{actor.name} prints {text!r}"
        )
        if not self.has_said(actor.name, text):
            self._drain(actor)
        if not self.has_said(actor.name, text):
            raise Failed(f"{actor.name} ended with {actor.process.returncode}")
        return next(event.text for event in self.lines if event.who == actor.name and text in event.text)

    def play(self) -> None:
        """Wait until every step that was said so far has happened."""
        for place, step in enumerate(self._steps):
            self.until(lambda place=place: place in self._done, f"step {step.number}, {step.words}")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Take what happens until ``condition`` holds.

        Raises:
            Failed: it does not in time.
        """
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                hidden = {actor.name for actor in self._actors if not actor.is_shown}
                last = [f"\n  {event.who}: {event.text}" for event in self.lines if event.who in hidden][-_LAST:]
                raise Failed(f"waited {PATIENCE:.0f} s in vain: {what}{''.join(last)}")
            self._take(0.05)

    def say(self, text: str) -> None:
        """Print a remark."""
        self._out(f"   # {text}")

    def stop(self, actor: Actor, how: signal.Signals = signal.SIGTERM, *, quietly: bool = False) -> None:
        """End a process."""
        if actor.process.poll() is None:
            if not quietly:
                self._out(f"   {actor.name}$ kill -{how.name.removeprefix('SIG')}")
            actor.process.send_signal(how)
            if quietly:
                try:
                    actor.process.wait(10)
                except subprocess.TimeoutExpired:
                    actor.process.kill()
                    actor.process.wait()
        if quietly and not actor.process.stdout.closed:
            if actor.process.stdout in self._selector.get_map():
                self._selector.unregister(actor.process.stdout)
            actor.process.stdout.close()

    def _take(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._take_datagrams()
            else:
                self._take_lines(key.data)

    def _take_datagrams(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._read, 65536)).split(b"\n")
        for line in lines:
            self._datagram(**json.loads(line))

    def _datagram(self, who: str, what: str, peer: str, text: str) -> None:
        if what == "heard":  # the sender of these bytes is at that address
            if text in self._senders:
                self._names[peer] = self._senders[text]
            return
        self._senders[text] = who
        if len(self._senders) > _REMEMBERED:
            del self._senders[next(iter(self._senders))]
        self._sent.append(Event("sent", who, self._names.get(peer, peer) if peer else "all", text))
        self._happened(self._sent[-1])

    def _take_lines(self, actor: Actor) -> None:
        data = os.read(actor.process.stdout.fileno(), 65536)
        if not data:
            self._selector.unregister(actor.process.stdout)
            lines, actor.rest = [actor.rest] if actor.rest else [], b""
        else:
            *lines, actor.rest = (actor.rest + data).split(b"\n")
        for line in lines:
            event = Event("line", actor.name, "", line.decode())
            self.lines.append(event)
            self._happened(event, is_shown=actor.is_shown)

    def _drain(self, actor: Actor) -> None:
        while actor.process.stdout in self._selector.get_map():
            self._take(0.05)

    def has_said(self, who: str, text: str) -> bool:
        """Whether a process has printed a line with this."""
        return any(event.who == who and text in event.text for event in self.lines)

    def has_sent(self, who: str, *parts: str) -> bool:
        """Whether a process has sent a datagram with all of these parts in it."""
        return any(event.who == who and all(part in event.text for part in parts) for event in self._sent)

    def _happened(self, event: Event, *, is_shown: bool = True) -> None:
        kind = event.text.partition(":")[0]
        if event.who == event.to:  # an agent of several roles, in its several roles
            return
        step = self._fitting(event)
        number = step.number if step else ""
        if event.kind == "line":
            if step:
                self._out(f"{number:>3}  {event.who}: {step.words}")
            if is_shown and event.text.strip():
                self._out(f"     {event.text.replace(f'{self.folder}/', '')}")
        elif step or kind not in self._seen:
            text = _shortened(event.text)
            shown = text if step or len(text) <= _ASIDE else f"{text[:_ASIDE]}..."
            self._out(f"{number:>3}  {event.who} -> {event.to}  {shown}")
        else:
            self._more[kind] += 1
        self._seen.add(kind)
        if step:
            early, self._early = self._early, []
            for line in early:
                self._happened(line, is_shown=False)

    def _fitting(self, event: Event) -> Step | None:
        """Return the step that an event is: the next one, or a box before it.

        The line of a box may come before the datagrams that the figure draws first, since another agent sends those.
        Such a line is kept until these steps are done.
        """
        to_come = [place for place in range(len(self._steps)) if place not in self._done]
        first = next((place for place in to_come if not self._steps[place].is_box), len(self._steps))
        for place in to_come:
            step = self._steps[place]
            if not step.fits(event):
                continue
            if place <= first:
                self._done.add(place)
                return step
            if step.is_box:
                self._early.append(event)
            break
        return None


def _shortened(text: str) -> str:
    """Return a text without the middle of signatures, keys and certificates."""
    return _LONG.sub(lambda found: f"{found[0][:8]}...", text)


def _shown(words: list[str], folder: Path) -> str:
    """Return a command as a user would type it."""
    typed = ["python", *words] if words[0].endswith(".py") else ["skillwire", *words]
    return shlex.join(word.replace(f"{folder}/", "") for word in typed)
