"""What a function is told of the call that it answers, when it asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(slots=True)
class CallContext:
    """The call that a function answers. A parameter of this type gets it; it is no input.

    Args:
        execution_id: the execution's; who knows that of a stranger's call may ask for its result.
        trace_id: the caller's name for what this is part of, None when it gave none.
        attempt: 1 at first.
        deadline: when the result counts no more, in UTC.
        is_cancelled: becomes true when nobody waits any more. A function in a thread cannot be stopped from outside:
            one that takes long looks at this now and then, and returns.
    """

    execution_id: str
    trace_id: str | None
    attempt: int
    deadline: datetime
    is_cancelled: bool = False
