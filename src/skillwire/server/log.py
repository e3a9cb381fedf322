"""The log of the server: to standard error, one line an event, for people or as JSON.

An error that repeats is logged once a minute, with the number of ``repeats`` left out, so that a full disk under load
does not fill the log.

An application that mounts ours keeps its own configuration of structlog; :func:`configure_logging` is for
``skillwire serve``. Hidden characters of untrusted values are shown, so a request cannot fake a line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

from skillwire.executions.view import without_ids
from skillwire.folder.publish import InvalidFolder
from skillwire.model.catalog import SkillChanges
from skillwire.server.http import LOGGED
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.tracing import is_tracing

if TYPE_CHECKING:
    from skillwire.server.revision import Revision

_NAMED: Final = 5
#: What an operator does about skills that are not granted.
GRANT: Final = "skillwire grant add FOLDER/{0}, or NAMESPACE/{0} for a package of a registry"
_ONE_LINE: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


#: Seconds in which an error that repeats is logged once, and of how many errors that is known.
_REPEAT_SECONDS: Final = 60.0
_ERRORS_KNOWN: Final = 1_000
#: The fields that distinguish errors; others, such as the path of a request, differ with each.
_DISTINCT: Final = ("event", "task", "skill", "code", "error", "reason", "place")


class RepeatLimiter:
    """A processor that drops errors which were logged a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[object, ...], tuple[float, int]] = {}

    def __call__(self, _: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Return the event, with the number of repeats that were dropped. Raises DropEvent."""
        if method != "error":
            return event
        raised = event.get("exc_info")
        error = raised if isinstance(raised, BaseException) else sys.exc_info()[1] if raised else None
        lines = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__ if error else None)]
        key, now = (*(str(event.get(name)) for name in _DISTINCT), type(error), *lines[-1:]), self._clock()
        since, repeats = self._known.pop(key, (float("-inf"), 0))
        is_repeated = now - since < _REPEAT_SECONDS
        self._known[key] = (since, repeats + 1) if is_repeated else (now, 0)
        if len(self._known) > _ERRORS_KNOWN:
            del self._known[next(iter(self._known))]
        if is_repeated:
            raise structlog.DropEvent
        return {**event, "repeats": repeats} if repeats else event


def configure_logging(form: str, on_event: Callable[[Mapping[str, Any]], object] = lambda _: None) -> None:
    """Log to standard error as ``human`` lines or ``json``; ``on_event`` gets the fields of each event."""

    def shorten(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in event.items():
            if isinstance(value, str):
                event[name] = without_ids(value)
        return event

    def add_ids(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        ids = LOGGED.get()
        return event if ids is None else {**ids.in_logs(), **event}

    def hand_on(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        on_event(event)
        return event

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            RepeatLimiter(),
            *([add_ids] if form == "json" else []),
            shorten,
            hand_on,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            shorten,  # once more, for what was raised
            _render_json if form == "json" else _render_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    for name, level in (("uvicorn.error", logging.WARNING), ("skillwire.lan", logging.INFO)):
        library = logging.getLogger(name)
        library.handlers = [_Forward()]
        library.propagate = False
        library.setLevel(level)


def log_changes(log: FilteringBoundLogger, revision: int, skills: int, changes: SkillChanges) -> None:
    """Log what a new revision publishes; ``revision`` is its number for anonymous clients, as in ``/readyz``."""
    changed = {kind: _names(names) for kind, names in changes._asdict().items() if names}
    log.info("published", revision=revision, skills=skills, **changed)


def _names(names: Sequence[str]) -> str | int:
    return ", ".join(names) if len(names) <= _NAMED else len(names)


def few(names: Sequence[str]) -> str:
    """Return the first of the names, and the number of the others."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


class MissingNames:
    """Logs the names that the operator configured and that are not published, once for each set of them.

    ``find`` returns those that a revision lacks.
    """

    def __init__(self, event: str, find: Callable[[Revision], list[str]]) -> None:
        self._event, self._find = event, find
        self._logged: list[str] = []

    def log(self, revision: Revision) -> None:
        """Log those that ``revision`` lacks."""
        missing = self._find(revision)
        if missing and missing != self._logged:
            structlog.get_logger("skillwire").warning(self._event, skills=", ".join(missing))
        self._logged = missing


def log_broken(log: FilteringBoundLogger, broken: Iterable[InvalidFolder]) -> None:
    """Log the folders that cannot be published, as errors where a skill is closed by that."""
    for one in broken:
        serving = "its last good version" if one.serving else "nothing of it"
        for finding in one.findings:
            log.log(
                logging.ERROR if one.closed else logging.WARNING,
                "skill broken",
                skill=one.name,
                serving=f"{serving}, now {one.access.value}" if one.closed else serving,
                code=finding.code,
                reason=finding.message,
                place=str(finding.place),
                fix=finding.fix,
            )


def _render_json(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03}Z"
    return json.dumps({"time": stamp, **event}, default=str)


def _render_line(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    clock = time.strftime("%H:%M:%S")
    level, what, trace = event.pop("level"), event.pop("event"), event.pop("exception", "")
    for name in ("request_id", "trace_id"):  # for programs that join lines
        event.pop(name, None)
    if what == "request":
        what = "{method} {path} {status} {bytes} B {ms} ms".format(**event)
        event = {"client": event["client"]}
    facts = " ".join(f"{name}={value}" for name, value in event.items() if value is not None)
    line = neutralise(f"{clock} {level} {what} {facts}").translate(_ONE_LINE).rstrip()
    # What was raised may hold untrusted text, whose line ends begin no line of ours.
    return "\n  ".join([line, *neutralise(trace).split("\n")]) if trace else line


class _Forward(logging.Handler):
    """Hands a record of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def configure_telemetry() -> None:
    """Export spans and metrics over OTLP/HTTP if ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set and nothing else does."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or is_disabled or is_tracing():
        return
    try:
        from skillwire.server.telemetry import export_telemetry  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        fix = "Install skillwire with the extra otel."
        structlog.get_logger("skillwire").warning("traces are not exported", missing=error.name, fix=fix)
    else:
        export_telemetry()
