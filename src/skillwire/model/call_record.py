"""What is remembered of a call, so that it can be asked for by its id, and is not executed twice."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class CallRecord(NamedTuple):
    """One call; nothing in it is a secret or an input.

    Args:
        key: the idempotency key that it is sent under.
        reference: what was typed to mean the skill.
        skill_id: of the skill.
        url: of its endpoint.
        created: when it was made, in seconds since the epoch.
        origins: those of the index and of the endpoint, where they had been named.
        header: the field that the endpoint wants an API key in; None for ``Authorization``.
        is_lent: whether the credential of an origin that nobody has named goes along: somebody agreed, or the origin
            lies below the one that was named.
        fingerprint: tells whether another call is the same; None once it was answered.
        context: the circumstances that it was sent with, which are a part of it until it is answered.
        execution_id: what the provider calls it; None before it has answered.
        status_url: of its execution; None where nothing tells.
        result_url: of what the execution gave.
    """

    key: str
    reference: str
    skill_id: str
    url: str
    created: float
    origins: tuple[str, ...] = ()
    header: str | None = None
    is_lent: bool = False
    fingerprint: str | None = None
    context: Mapping[str, Any] = MappingProxyType({})
    execution_id: str | None = None
    status_url: str | None = None
    result_url: str | None = None
