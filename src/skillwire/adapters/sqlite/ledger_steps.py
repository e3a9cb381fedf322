"""One step of an execution in the ledger: what decides about it is read, the state table is asked, the row is changed.

Each is done within the transaction of whoever asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.sqlite.ledger_rows import (
    SELECT,
    STATE,
    read_execution,
    read_state,
    written_event,
    written_failure,
)
from skillwire.invocation.states import timed_out
from skillwire.model.execution import FINAL, Event
from skillwire.model.ledger import Accepted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from sqlite3 import Connection

    from skillwire.invocation.states import State, What
    from skillwire.model.execution import Claim, Execution, Failure
    from skillwire.model.ledger import IdempotencyKey, Moment


def find(connection: Connection, execution_id: str) -> Execution | None:
    """Return an execution."""
    row = connection.execute(f"{SELECT} WHERE execution_id = ?", (execution_id,)).fetchone()
    return None if row is None else read_execution(row)


def state_of(connection: Connection, execution_id: str) -> State | None:
    """Return what decides about an execution."""
    query = f"SELECT {STATE} FROM executions WHERE execution_id = ?"  # noqa: S608  # a constant
    row = connection.execute(query, (execution_id,)).fetchone()
    return None if row is None else read_state(row)


def held_state(connection: Connection, claim: Claim) -> State | None:
    """Return the state of what is claimed, if the claim holds."""
    state = state_of(connection, claim.execution_id)
    return state if state is not None and state.holds(claim) else None


def known_by(connection: Connection, key: IdempotencyKey) -> Accepted | None:
    """Return the execution that a key was first used for."""
    query = "SELECT body, execution_id FROM idempotency_keys WHERE caller = ? AND key = ?"
    row = connection.execute(query, (key.caller, key.key)).fetchone()
    earlier = find(connection, row[1]) if row else None
    if earlier is None:
        return None
    return Accepted(earlier, "repeated" if row[0] == key.body else "another")


def too_late(connection: Connection, execution_id: str, details: Mapping[str, object]) -> Failure:
    """Return what an execution failed of that took too long, with what whoever ran it told of that, such as its log."""
    row = connection.execute("SELECT timeout FROM executions WHERE execution_id = ?", (execution_id,)).fetchone()
    late = timed_out(execution_id, row[0])
    return late._replace(details={**details, **late.details})


def step(
    connection: Connection,
    execution_id: str,
    what: What,
    now: Moment,
    *,
    worker: str | None = None,
    by: str = "",
    not_before: float | None = None,
    failure: Failure | None = None,
    lease: tuple[float | None, str | None] = (None, None),
) -> bool:
    """Let an event happen to an execution, if it can; return whether it did."""
    state = state_of(connection, execution_id)
    after = state.step(what, worker=worker, not_before=not_before) if state else None
    if after is None:
        return False
    is_final = after.status in FINAL
    note = failure.message if failure and what in _NOTED else ""
    values: dict[str, Any] = {
        "status": after.status.value,
        "attempt": after.attempt,
        "max_attempts": after.max_attempts,
        "losses": after.losses,
        "worker": after.worker,
        "not_before": after.not_before,
        "updated": now.wall,
        "lease_until": lease[0],
        "lease_boot": lease[1],
        "completed": now.wall if is_final else None,
        "failure": written_failure(failure) if failure and is_final else None,
    }
    query = (
        f"UPDATE executions SET {', '.join(f'{name} = ?' for name in values)}, timeline = timeline || ?,"  # noqa: S608  # constants
        " callback_at = CASE WHEN webhook IS NOT NULL AND ? THEN ? END WHERE execution_id = ?"
    )
    event = written_event(Event(now.wall, what, by, note))
    connection.execute(query, (*values.values(), event, is_final, now.wall, execution_id))
    return True


#: Events whose line in the timeline says why.
_NOTED: Final = {"fail", "retry", "abandon", "lose"}
