"""What a caller's ``context.trace_id`` says to those who trace: a trace of W3C Trace Context, where it is one.

Callers write the ID of a trace alone, or a whole ``traceparent``. Anything else is a name like any other.

Spec: W3C Trace Context §3.2 (traceparent). SSP §5.3. Trust: a stranger's text, which only names.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(
    r"(?:00-)?(?!0{32})(?P<trace>[0-9a-f]{32})(?:-(?!0{16})(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2}))?"
)
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """A trace: its ID, the ID of the caller's span if it named one, and whether the caller records it.

    Who names a trace without saying whether it is recorded is taken to record it.
    """

    trace_id: str
    span_id: str | None = None
    is_sampled: bool = True


def read_trace(text: str | None) -> TraceContext | None:
    """Return the trace that a ``context.trace_id`` names; None when it names none."""
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    flags = found["flags"]
    return TraceContext(found["trace"], found["span"], flags is None or bool(int(flags, 16) & _SAMPLED))
