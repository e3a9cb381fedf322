"""Invocation over HTTP: a call is accepted, followed, and taken back.

::

    POST   /skills/NAME/executions   202, once the execution is on the disk
    GET    /executions/ID            how far it is; waits with ``Prefer: wait=N``; a stream for ``text/event-stream``
    GET    /executions/ID/result     202 until it has ended
    DELETE /executions/ID            cancels it

and the same at the paths and with the methods that a publisher's own descriptor names. Who may use a skill may call it;
who called it may follow it. An execution of somebody else is answered as one that does not exist; one of a stranger is
known to whoever knows its 128 random bits. Spec: SSP §5, §7, §8.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from skillwire.errors import NotFoundError, TrustError, ValidationError
from skillwire.invocation.accept import Invocation, wrong
from skillwire.invocation.view import encode_execution, tag_of
from skillwire.model.access import ANONYMOUS, OPERATOR
from skillwire.model.ledger import IdempotencyKey
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.protocols.skill_sharing.messages import Method
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.headers import encode_fields
from skillwire.server.invocation.answer import answer_fields, location_of
from skillwire.server.invocation.answer_body import make_body
from skillwire.server.invocation.events import stream
from skillwire.server.invocation.requests import (
    read_request,
    request_of_query,
    without_credentials,
)
from skillwire.server.methods import READ, answer_preflight
from skillwire.server.negotiation import matching_tag
from skillwire.server.problems import Problem, method_not_allowed
from skillwire.server.site import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from skillwire.invocation.offer import Offer
    from skillwire.model.access import Principal
    from skillwire.model.execution import Execution, Webhook
    from skillwire.model.skill import Skill
    from skillwire.protocols.skill_sharing.messages import InvocationRequest
    from skillwire.server.invocation.bodies import Body
    from skillwire.server.invocation.desk import Desk
    from skillwire.server.invocation.endpoints import Meant
    from skillwire.server.invocation.granted import Granted
    from skillwire.server.invocation.offers import Offers
    from skillwire.server.invocation.requests import Asked
    from skillwire.trust.address import AddressPolicy

_STATUS: Final = "GET, HEAD, DELETE, OPTIONS"
_RESULT: Final = "GET, HEAD, OPTIONS"
_EVENTS: Final = "text/event-stream"
_sorted: Final = msgspec.json.Encoder(order="sorted")


class Request(NamedTuple):
    """An HTTP request for an execution: who asks, from where, and with what body."""

    scope: Scope
    principal: Principal | None
    body: Body
    asked: Asked

    @property
    def method(self) -> str:
        """How it asks."""
        return str(self.scope["method"])

    @property
    def caller(self) -> str:
        """Whom an execution of this request belongs to."""
        address = self.scope["client"][0] if self.scope.get("client") else ""
        return caller_of(self.principal or ANONYMOUS, address)


class InvocationRoute:
    """Answers requests for executions.

    Args:
        desk: where executions are.
        offers: what skills promise.
        granted: knows whether somebody agreed that a skill runs here.
        webhook_secret: whose caller is given, what its callbacks are signed with.
        callbacks: where callbacks may lead.
        base_url: of the site; as requests say it when empty.
    """

    def __init__(
        self,
        desk: Desk,
        offers: Offers,
        granted: Granted,
        *,
        webhook_secret: Callable[[Execution], str],
        callbacks: AddressPolicy,
        base_url: str,
    ) -> None:
        self._desk = desk
        self._offers = offers
        self._granted = granted
        self._webhook_secret = webhook_secret
        self._callbacks = callbacks
        self._base_url = base_url

    async def follow(self, meant: Meant, request: Request, receive: Receive, send: Send) -> None:
        """Answer what is asked about one execution.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``: it is not there, or not the caller's. StorageError: ``DATABASE``.
        """
        allowed = _RESULT if meant.purpose == "result" else _STATUS
        if request.method == "OPTIONS":
            await answer_preflight(allowed, send)
            return
        if request.method not in allowed.split(", "):
            await method_not_allowed(request.method, allowed).send(send)
            return
        execution = await self._look_up(meant.execution_id, request)
        if request.method == "DELETE":
            by = request.principal.name if request.principal else "its caller"
            execution = await self._desk.cancel(execution.execution_id, by) or execution
            await self._send_execution(200, execution, request, send)
            return
        if request.method == "GET" and _EVENTS in request.asked.accept and meant.purpose == "status":
            await stream(self._desk, execution, request.caller, receive, send)
            return
        execution, fields = await self._wait(execution, request, request.asked.tags)
        if meant.purpose == "result":
            await self._send_result(execution, request, send, fields)
        else:
            await self._send_execution(200, execution, request, send, fields)

    async def invoke(self, meant: Meant, skill: Skill, request: Request, send: Send) -> Offer | None:
        """Answer a call of ``skill``, which the caller may use; return the offer of one that was accepted.

        Raises:
            SkillwireError: it is not accepted; ``AUTH_REQUIRED`` where callers of a public skill say who they are.
        """
        if request.method == "OPTIONS":
            await answer_preflight(f"{meant.method.value}, OPTIONS", send, "Idempotency-Key")
            return None
        if request.method != meant.method.value:
            await method_not_allowed(request.method, f"{meant.method.value}, OPTIONS").send(send)
            return None
        offer = self._offers.known(skill) or await asyncio.to_thread(self._offers.of, skill)
        if offer is None:
            raise ValidationError("VALIDATION_ERROR", f"{skill.name} is read, not called")
        if offer.needs_authentication and request.principal is None:
            raise TrustError("AUTH_REQUIRED", "Authentication is required to invoke this skill")
        if not await self._granted.look(skill):
            reason = {"reason": "not_granted", "skill_id": offer.skill_id}
            await _unavailable("The operator has not granted that this skill runs here", reason).send(send)
            return None
        execution, fields = await self._wait(await self._accept(meant, offer, request), request, "")
        status = 200 if execution.status.is_final else 202
        fields["Location"] = location_of(execution, site_of(request.scope, self._base_url))
        if request.asked.webhook is not None:
            fields["Webhook-Secret"] = await asyncio.to_thread(self._webhook_secret, execution)
        await self._send_execution(status, execution, request, send, fields)
        return offer

    async def _accept(self, meant: Meant, offer: Offer, request: Request) -> Execution:
        """Return the execution of a call; nothing of its body is held any more, nor of its inputs."""
        accepted_at = self._desk.clock().wall
        wanted = _read_invocation(meant, offer, request)
        self._check_callback(request.asked.webhook)
        invocation = Invocation(wanted, request.caller, accepted_at, request.asked.webhook)
        accepted = await self._desk.accept(offer, invocation, _key(wanted, request))
        request.body.release()
        return replace(accepted.execution, inputs=b"")

    def _check_callback(self, webhook: Webhook | None) -> None:
        if webhook is not None:
            try:
                self._callbacks.check_url(parse_url(webhook.url))
            except TrustError as error:  # how the operator could open it is not for strangers
                raise ValidationError("VALIDATION_ERROR", "Callback-Url: callbacks may not lead there") from error

    async def _look_up(self, execution_id: str, request: Request) -> Execution:
        execution = await self._desk.look_up(execution_id)
        if execution is None or not may_follow(execution, request.principal):
            message = f"Execution '{execution_id[:100]}' was not found"
            raise NotFoundError("SKILL_NOT_FOUND", message, details={"execution_id": execution_id[:100]})
        return execution

    async def _wait(self, execution: Execution, request: Request, tags: str) -> tuple[Execution, dict[str, str]]:
        """Wait if that is asked for, until it is another than the caller has seen, or has ended, or the time is over.

        Return it with the header fields that say whether the wish was heeded.
        """
        seconds = request.asked.wait
        if not seconds:
            return execution, {}
        heeded = {"Preference-Applied": f"wait={seconds}"}
        if execution.status.is_final:
            return execution, heeded
        if not self._desk.places.has_room(request.caller):
            return execution, {}
        with self._desk.places.taking(request.caller):
            return await self._changed(execution, tags, seconds), heeded

    async def _changed(self, execution: Execution, tags: str, seconds: float) -> Execution:
        changes, loop = self._desk.changes, asyncio.get_running_loop()
        until = loop.time() + seconds
        with changes.follow(execution.execution_id) as following:
            while True:
                now = replace(await self._desk.look_up(execution.execution_id) or execution, inputs=b"")
                is_news = bool(tags) and not matching_tag(tags, (tag_of(encode_execution(now)),))
                left = until - loop.time()
                if now.status.is_final or is_news or left <= 0 or changes.is_closed:
                    return now
                await following.wait(left)

    async def _send_result(self, execution: Execution, request: Request, send: Send, fields: Mapping[str, str]) -> None:
        if execution.output_forgotten:
            details = {"execution_id": execution.execution_id, "reason": "forgotten"}
            problem = Problem(410, "SKILL_NOT_FOUND", "The output is not kept any more", details)
            await problem.send(send, head=request.method == "HEAD")
            return
        await self._send_execution(200 if execution.status.is_final else 202, execution, request, send, fields)

    async def _send_execution(
        self,
        status: int,
        execution: Execution,
        request: Request,
        send: Send,
        more: Mapping[str, str] | None = None,
    ) -> None:
        body = await make_body(self._desk, execution)
        fields = {**answer_fields(execution, body.tag, body.size, self._desk.clock().wall), **(more or {})}
        is_empty = request.method == "HEAD"
        if status == 200 and request.method in READ and matching_tag(request.asked.tags, (fields["ETag"],)):  # noqa: PLR2004  # OK
            status, is_empty = 304, True
            del fields["Content-Type"], fields["Content-Length"]
        headers = encode_fields(fields, OPEN_FIELDS)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if is_empty:
            await send({"type": "http.response.body", "body": b""})
        else:
            await body.send(send)


def may_follow(execution: Execution, principal: Principal | None) -> bool:
    """Whether an execution may be shown to, and cancelled by, whoever knows its ID and is ``principal``."""
    if principal is not None and OPERATOR in principal.scopes:
        return True
    if execution.caller.startswith("address "):
        return True
    return principal is not None and execution.caller == caller_of(principal, "")


def _read_invocation(meant: Meant, offer: Offer, request: Request) -> InvocationRequest:
    if meant.method in {Method.GET, Method.DELETE}:
        name = request.principal.name if request.principal else ""
        return request_of_query(request.scope["query_string"], offer, name)
    if not request.body.data:
        raise wrong("", "is empty", "an InvocationRequest", None)
    return without_credentials(read_request(request.body.data, request.asked.content_type))


def _key(wanted: InvocationRequest, request: Request) -> IdempotencyKey | None:
    """Return a caller's name for its request. What proves who it is may change between two that are the same."""
    key = request.asked.key
    if key is None:
        return None
    # Strangers behind one address are told apart by what they call themselves.
    caller = request.caller if request.principal else f"{request.caller} {wanted.caller.id}"
    return IdempotencyKey(caller, key, hashlib.sha256(_sorted.encode(wanted)).digest())


def _unavailable(message: str, details: Mapping[str, object]) -> Problem:
    return Problem(503, "ENDPOINT_UNREACHABLE", message, details)
