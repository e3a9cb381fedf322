"""What clients of several servers saw, and the checks that it contradicts no promise.

A history is a list of operations in the order of their ends, with the times of the client's own clock. It is judged
when all is over: what was acknowledged is there, nothing that a client has seen goes away again, and each execution
ended once.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["publish", "read", "accept", "end", "ran"]


class Operation(NamedTuple):
    """One request and its answer; ``subject`` is a package, the key of a request, or an execution.

    ``value`` is the version that was published, the versions that were read, separated by blanks, the ID that was
    given, or status and output of an ended execution. ``outcome`` is ``ok``, ``refused``, ``failed``, or ``unknown``
    when no answer came: after the last two it may have happened. ``session`` orders what one client did, one operation
    after the other.
    """

    kind: Kind
    session: str
    subject: str
    value: str
    outcome: str
    began: float
    ended: float
    server: str = ""


def read_history(path: Path) -> list[Operation]:
    """Return the operations in a file of JSON arrays, one a line."""
    return [Operation(*json.loads(line)) for line in path.read_text().splitlines()]


def check(history: Sequence[Operation], final_versions: dict[str, set[str]], final_ends: dict[str, str]) -> list[str]:
    """Return what contradicts a promise, as sentences.

    ``final_versions`` are the versions of each package when everything was up again, ``final_ends`` status and output
    of each execution that was accepted.
    """
    return [
        *_lost_writes(history, final_versions),
        *_reads_that_go_back(history),
        *_executions(history, final_ends),
    ]


def _lost_writes(history: Sequence[Operation], final: dict[str, set[str]]) -> Iterator[str]:
    for one in history:
        if one.kind == "publish" and one.outcome == "ok" and one.value not in final.get(one.subject, set()):
            yield f"{one.subject} {one.value} was acknowledged at {one.ended:.3f} by {one.server} and is not there"


def _reads_that_go_back(history: Sequence[Operation]) -> Iterator[str]:
    """A session reads what it published and what it has read before."""
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in sorted(history, key=lambda operation: operation.ended):
        seen = known[one.session, one.subject]
        if one.kind == "publish" and one.outcome == "ok":
            seen.add(one.value)
        elif one.kind == "read" and one.outcome == "ok":
            versions = set(one.value.split())
            if missing := seen - versions:
                which = ", ".join(sorted(missing))
                yield f"{one.session} read {one.subject} at {one.ended:.3f} from {one.server} without {which}"
            seen |= versions


def _executions(history: Sequence[Operation], final: dict[str, str]) -> Iterator[str]:
    given, ends = _values(history, "accept"), _values(history, "end")
    runs = Counter(one.subject for one in history if one.kind == "ran")
    for key, executions in given.items():
        if len(executions) > 1:
            yield f"the request {key} made {len(executions)} executions: {', '.join(sorted(executions))}"
        yield from (f"{one} was accepted and is not there" for one in executions if one not in final)
    for execution, seen in ends.items():
        told = seen | {final.get(execution, "lost")}
        if len(told) > 1:
            yield f"{execution} ended in {len(told)} ways: {', '.join(sorted(told))}"
    yield from (f"{one} may run once, and ran {number} times" for one, number in runs.items() if number > 1)


def _values(history: Sequence[Operation], kind: Kind) -> dict[str, set[str]]:
    """Return subject → the values of its successful operations of a kind."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in history:
        if one.kind == kind and one.outcome == "ok":
            found[one.subject].add(one.value)
    return found


def recoveries(history: Iterable[Operation], faults: Sequence[float], kinds: Sequence[Kind]) -> list[float]:
    """Return for each fault the seconds until each of ``kinds`` had succeeded in a request that began after it."""
    found = []
    done = sorted((one.ended, one.began, one.kind) for one in history if one.outcome == "ok")
    for fault in faults:
        firsts = [
            next((ended - fault for ended, began, kind in done if kind == wanted and began >= fault), float("inf"))
            for wanted in kinds
        ]
        found.append(max(firsts))
    return found
