"""What is told of code that has ended: its outcome, and its texts as they may be shown."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.sandbox.interpreter import find_interpreter
from skillwire.adapters.sandbox.secrets import hide, longest
from skillwire.errors import DecodeError
from skillwire.model.execution import Failure, Outcome
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.adapters.sandbox.bounds import Bounds, Limit
    from skillwire.adapters.sandbox.process import Ending

_SIGNALLED: Final = 128
_SIGXCPU: Final = 24
_MESSAGE_LENGTH: Final = 500
#: An error of the system that a bound of ours explains.
_BY_ERRNO: Final[dict[int, Limit]] = {
    errno.ENOSPC: "work_bytes",
    errno.EFBIG: "file_bytes",
    errno.EMFILE: "open_files",
    errno.ENOMEM: "memory_bytes",
}
#: The bytes in UTF-8 that begin no character: a cut may leave some of them.
_CONTINUED: Final = bytes(range(0x80, 0xC0))


class Shown:
    """Makes texts of a skill fit to be shown: without secrets, without this machine's paths, harmless.

    Args:
        secrets: that it was given.
        called: what sentences call it: "the skill", or "the code" of a caller.
    """

    def __init__(self, secrets: tuple[str, ...], called: str) -> None:
        self._secrets = secrets
        self.called = called

    def text(self, text: object) -> str:
        """Return the begin of ``text``."""
        return neutralise(self._clean(str(text))[:_MESSAGE_LENGTH])

    def end(self, text: object, length: int) -> str:
        """Return the end of ``text``."""
        return neutralise(self._clean(str(text))[-length:])

    def _clean(self, text: str) -> str:
        return hide(text, self._secrets).replace(find_interpreter().library, "<python>")

    def log(self, ending: Ending, length: int) -> str:
        """Return the end of what was printed."""
        kept = ending.log.lstrip(_CONTINUED) if ending.is_log_cut else ending.log
        printed = self._clean(kept.decode(errors="replace"))
        if ending.is_log_cut:
            printed = printed[longest(self._secrets) :]  # it may begin within a secret
        cut = ending.is_log_cut or len(printed) > length
        return ("… " if cut else "") + neutralise(printed[-length:])


def outcome_of(ending: Ending, report: Mapping[str, Any] | None, bounds: Bounds, shown: Shown) -> Outcome:
    """Return what became of code that has ended, by what the runner reported of it."""
    if ending.limit is not None:
        return _limited(ending.limit, bounds, shown.called)
    if report is None:
        return _without_report(ending, bounds, shown.called)
    if "output" in report:
        return Outcome(output=report["output"])
    return _reported(report, bounds, shown)


def _reported(report: Mapping[str, Any], bounds: Bounds, shown: Shown) -> Outcome:
    """Return what came of a function that did not return JSON within its bounds."""
    if "large" in report:
        return _limited("output_bytes", bounds, shown.called)
    if "exceeded" in report:
        return _limited("blobs" if report["exceeded"] == "blobs" else "blob_bytes", bounds, shown.called)
    if "unfit" in report:
        message = f"the function returned what is not JSON: {shown.text(report['unfit'])}"
        return Outcome(failure=Failure("output", message))
    if "asynchronous" in report:
        name = shown.text(report["asynchronous"])
        message = f"{name} gave a coroutine, which nothing awaits: it has to be a plain function, def and not async def"
        return Outcome(failure=Failure("output", message))
    if "exit" in report:
        message = f"{shown.called} called exit with {shown.text(report['exit'])}"
        return Outcome(failure=Failure("exit", message, is_passing=True))
    return _raised(report, bounds, shown)


def read_report(data: bytes, bounds: Bounds) -> dict[str, Any] | None:
    """Return what the runner reported; None when it did not, or not in this form."""
    try:
        report = load_json(data, max_bytes=bounds.output_bytes + bounds.frame_bytes, source="the result")
    except DecodeError as error:
        return {"unfit": error.message} if data else None
    return report if isinstance(report, dict) and report.keys() & _FORMS else {"unfit": "not a report"}


_FORMS: Final = frozenset({"output", "large", "exceeded", "unfit", "asynchronous", "exit", "exception"})


def _without_report(ending: Ending, bounds: Bounds, called: str) -> Outcome:
    if ending.code == _SIGNALLED + _SIGXCPU:
        return _limited("cpu_seconds", bounds, called)
    if ending.code > _SIGNALLED:
        message = f"{called} was ended by signal {ending.code - _SIGNALLED}"
        return Outcome(failure=Failure("exit", message, is_passing=True, details={"signal": ending.code - _SIGNALLED}))
    message = f"{called} ended with exit code {ending.code} before its function returned"
    return Outcome(failure=Failure("exit", message, is_passing=True, details={"exit_code": ending.code}))


def _raised(report: Mapping[str, Any], bounds: Bounds, shown: Shown) -> Outcome:
    limit: Limit | None = "memory_bytes" if report.get("memory") is True else None
    number = report.get("errno")
    if isinstance(number, int):
        limit = _BY_ERRNO.get(number, limit)
    if limit is not None:
        return _limited(limit, bounds, shown.called)
    name, said = shown.text(report.get("exception")), shown.text(report.get("message", ""))
    details = {"exception": name, "traceback": shown.end(report.get("traceback", ""), bounds.log_shown_bytes)}
    message = f"{shown.called} raised {name}: {said}" if said else f"{shown.called} raised {name}"
    return Outcome(failure=Failure("exception", message, details=details, is_passing=True))


def _limited(limit: Limit, bounds: Bounds, called: str) -> Outcome:
    if limit == "seconds":
        message = f"{called} did not end within {bounds.seconds:.3g} s"
        return Outcome(failure=Failure("deadline", message, code="INVOCATION_TIMEOUT", details={"limit": limit}))
    if limit == "output_bytes":
        message = f"the function returned more than {bounds.say(limit)}"
        return Outcome(failure=Failure("output", message, details={"limit": limit}))
    message = f"{called} used more than {bounds.say(limit)}"
    return Outcome(failure=Failure("limit", message, details={"limit": limit}))
