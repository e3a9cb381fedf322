"""The address of a list of executions, and what it asks for: ``?status=failed&skill=csv-profile&after=CURSOR``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast, get_args
from urllib.parse import parse_qsl, urlencode

from skillwire import limits
from skillwire.model.action import ExecutorKind
from skillwire.model.execution import ExecutionStatus
from skillwire.model.ledger import ExecutionQuery

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUSES: Final = {status.value: status for status in ExecutionStatus}
_EXECUTORS: Final = frozenset(get_args(ExecutorKind))
_FIELDS: Final = 64
_LENGTH: Final = 256


class Filters(NamedTuple):
    """What a person filters by, as typed; empty for everything."""

    status: ExecutionStatus | None = None
    skill: str = ""
    caller: str = ""
    executor: str = ""
    trace: str = ""
    after: str = ""

    @property
    def are_set(self) -> bool:
        """Whether anything but the status is chosen."""
        return bool(self.skill or self.caller or self.executor or self.trace)

    def url(self, **changes: object) -> str:
        """Return the query of the list with these changes, with its question mark; the first page of it."""
        wanted = self._replace(after="")._replace(**changes)  # type: ignore[arg-type]  # names of fields
        pairs = [(name, str(value)) for name, value in wanted._asdict().items() if value]
        return f"?{urlencode(pairs)}" if pairs else "?"

    def query(self, caller_of: Callable[[str], str]) -> ExecutionQuery:
        """Return the search that this stands for; ``caller_of`` says who is meant by what was typed."""
        return ExecutionQuery(
            statuses=None if self.status is None else frozenset({self.status}),
            skill=self.skill or None,
            caller=caller_of(self.caller) if self.caller else None,
            executor=cast("ExecutorKind", self.executor) if self.executor else None,
            trace_id=self.trace or None,
            limit=limits.CONSOLE_EXECUTIONS,
            after=self.after or None,
        )


def read_filters(query_string: bytes) -> Filters:
    """Return what the query of a URL asks for; what is not known or too long is passed over. Trust: a stranger's."""
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), max_num_fields=_FIELDS)
    except ValueError:  # too many fields: nobody's filter has so many
        return Filters()
    found = {name: value.strip() for name, value in pairs if len(value) <= _LENGTH}
    executor = found.get("executor", "")
    return Filters(
        _STATUSES.get(found.get("status", "")),
        found.get("skill", ""),
        found.get("caller", ""),
        executor if executor in _EXECUTORS else "",
        found.get("trace", ""),
        found.get("after", ""),
    )
