"""Invocation over HTTP: calls are accepted, followed and cancelled. Spec: SSP §3.5.3, §5, §7, §8.

::

    POST   /skills/NAME/executions   202, once the execution is stored
    GET    /executions/ID            its status; waits with ``Prefer: wait=N``; a stream for ``text/event-stream``
    GET    /executions/ID/result     202 until it has ended
    DELETE /executions/ID            cancels it

The same holds for the paths and methods that a publisher's own ``descriptor.json`` names. They are looked up by the
whole URL, so a descriptor of another site claims nothing here, and only when no path of the site itself matches.

Callers that may use a skill may call it, and follow what they called. Another caller's execution is answered as one
that does not exist; an anonymous caller's is open to requests that know its 128 random bits.

Trust: requests come from untrusted peers. Credentials are taken out of a body before anything else is done with it.
The header fields but ``Prefer`` (RFC 7240) are an extension.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Collection, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from starlette.types import Receive, Scope, Send

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError, TrustError, ValidationError, one_line
from skillwire.executions.callable_skill import CallableSkill, Invocation, check_idempotency_key, invalid_request
from skillwire.executions.view import encode_execution, tag_of
from skillwire.executions.webhooks import read_callback_url
from skillwire.model.access import ANONYMOUS, OPERATOR, Principal
from skillwire.model.execution import Execution, IdempotencyKey
from skillwire.model.skill import Skill
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS
from skillwire.protocols.skill_sharing import EXECUTIONS, REGISTRY
from skillwire.protocols.skill_sharing.codec import EXECUTION_PLACEHOLDER
from skillwire.protocols.skill_sharing.messages import Caller, InvocationRequest, Method
from skillwire.protocols.skill_sharing.validation import parse_as
from skillwire.server.execution_responses import answer_fields, make_body, stream
from skillwire.server.execution_service import CallableSkills, ExecutionService, GrantCache
from skillwire.server.http import Fields, encode_fields, matching_tag, read_fields, read_pairs, site_of
from skillwire.server.problems import READ, Problem, ProblemError, answer_preflight, method_not_allowed
from skillwire.server.quotas import ADDRESS, caller_of
from skillwire.server.request_bodies import Body
from skillwire.trust.address import AddressPolicy
from skillwire.wire.fetch import is_json

Purpose = Literal["invoke", "status", "result"]
_PREFIX: Final = f"{EXECUTIONS}/"


class EndpointMatch(NamedTuple):
    """What a URL is for: ``skill`` is the name of the one to invoke, ``execution_id`` what is asked about.

    ``described_by`` lists the skills whose descriptors name the URL; it is empty for a standard path.
    """

    purpose: Purpose
    skill: str = ""
    execution_id: str = ""
    method: Method = Method.POST
    described_by: Collection[str] = ()

    def is_hidden(self, visible: Container[str]) -> bool:
        """Whether only skills that are not ``visible`` have the URL, so that an answer would show that one is there."""
        return bool(self.described_by) and not any(name in visible for name in self.described_by)


def match_standard_path(path: str) -> EndpointMatch | None:
    """Return what a path of ours is for, or None."""
    if path.startswith(_PREFIX):
        name, _, rest = path[len(_PREFIX) :].partition("/")
        if not name or rest not in {"", "result"}:
            return None
        return EndpointMatch("result" if rest else "status", execution_id=name)
    if path.startswith(f"{REGISTRY}/") and path.endswith(EXECUTIONS):
        name = path[len(REGISTRY) + 1 : -len(EXECUTIONS)]
        return EndpointMatch("invoke", skill=name) if name and "/" not in name else None
    return None


class Endpoints:
    """The endpoints that descriptors of a revision name."""

    def __init__(self, skills: Mapping[str, Skill], callables: CallableSkills) -> None:
        self._urls: dict[str, EndpointMatch] = {}
        self._templates: dict[re.Pattern[str], tuple[Purpose, list[str]]] = {}  # with the skills that share it
        for skill in skills.values():
            if skill.action is not None and skill.sharing is not None and skill.sharing.descriptor is not None:
                try:
                    endpoint = callables.descriptor(skill).endpoint
                    invoke = EndpointMatch("invoke", skill.name, method=endpoint.method, described_by=(skill.name,))
                    self._urls.setdefault(endpoint.url.partition("?")[0], invoke)
                    status, result = endpoint.status_url, endpoint.result_url
                    templates: dict[Purpose, str | UnsetType] = {"status": status, "result": result}
                    for purpose, url in templates.items():
                        if url:
                            self._templates.setdefault(_template(url), (purpose, []))[1].append(skill.name)
                except SkillwireError as error:
                    structlog.get_logger("skillwire").warning(
                        "a descriptor names no endpoint", skill=skill.name, why=one_line(error)
                    )

    def match(self, url: str) -> EndpointMatch | None:
        """Return the match of a URL without its query, or None."""
        named = ((template.fullmatch(url), *of) for template, of in self._templates.items())
        found = (EndpointMatch(of, execution_id=read[1], described_by=skills) for read, of, skills in named if read)
        return self._urls.get(url) or next(found, None)


def _template(url: str) -> re.Pattern[str]:
    before, placeholder, after = url.partition(EXECUTION_PLACEHOLDER)
    before = before if placeholder else f"{before.rstrip('/')}/"
    return re.compile(f"{re.escape(before)}([^/]+){re.escape(after)}")


_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,6})\"?(?:$|[,;\s])", re.IGNORECASE)
_PARAMETERS: Final = 200
_ID_LENGTH: Final = 256
_FIELDS: Final = (b"content-type", b"prefer", b"idempotency-key", b"callback-url", b"if-none-match", b"accept")


class RequestOptions(NamedTuple):
    """The fields of a request that matter here; ``wait`` in seconds."""

    content_type: str
    wait: int
    key: str | None
    webhook: str | None
    tags: str
    accept: str


def read_options(fields: Fields) -> RequestOptions:
    """Return the options in a request's fields. Raises ValidationError (``VALIDATION_ERROR``)."""
    found = read_fields(fields, *_FIELDS)
    wait = _WAIT.search(found.get(b"prefer", ""))
    key, callback = found.get(b"idempotency-key"), found.get(b"callback-url")
    return RequestOptions(
        found.get(b"content-type", ""),
        min(int(wait[1]), limits.EXECUTION_WAIT_SECONDS) if wait else 0,
        None if key is None else check_idempotency_key(key),
        None if callback is None else read_callback_url(callback),
        found.get(b"if-none-match", ""),
        found.get(b"accept", ""),
    )


def read_request(body: bytes, content_type: str) -> InvocationRequest:
    """Return the invocation in a body. Raises DecodeError, ValidationError (``VALIDATION_ERROR``, ``MEDIA_TYPE``)."""
    if content_type and not is_json(content_type):
        details = {"expected": "application/json", "actual": content_type[:60]}
        raise ValidationError(
            "MEDIA_TYPE", f"the body is {ascii(content_type)[:60]}, and only JSON is read", details=details
        )
    request: InvocationRequest = parse_as(
        body, "InvocationRequest", max_bytes=limits.EXECUTION_REQUEST_BYTES, source="request"
    )
    return request


def requested_name(match: EndpointMatch, body: bytes) -> str:
    """Return the skill that a request names: by its id if the body is an invocation, else as its path does."""
    with suppress(SkillwireError):
        return read_request(body, "").skill_id[:_ID_LENGTH]
    return match.skill


def body_credentials(request: InvocationRequest) -> Fields:
    """Return what a caller proves itself by in the body, as the header fields that say the same. Ours."""
    shown = request.caller.credentials or {}
    key, token = shown.get("api_key"), shown.get("access_token")
    if isinstance(key, str):
        return [(b"x-api-key", key.encode("latin-1", "replace"))]
    if isinstance(token, str):
        return [(b"authorization", b"Bearer " + token.encode("latin-1", "replace"))]
    return []


def without_credentials(request: InvocationRequest) -> InvocationRequest:
    """Return a request without what its caller proved itself by."""
    if request.caller.credentials is UNSET:
        return request
    caller = Caller(id=request.caller.id, type=request.caller.type)
    return InvocationRequest(caller=caller, skill_id=request.skill_id, inputs=request.inputs, context=request.context)


def request_of_query(query: bytes, callable_skill: CallableSkill, caller: str) -> InvocationRequest:
    """Return the invocation in the query of a GET or DELETE, an extension. Raises UsageError, ValidationError."""
    inputs: dict[str, Any] = {}
    for name, text in read_pairs(query, _PARAMETERS):
        if name in inputs:
            raise invalid_request(f"/inputs/{name[:100]}", "is given twice", "one value", None)
        try:
            inputs[name] = text if name in callable_skill.text_inputs else msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):  # the last for deep nesting
            raise invalid_request(f"/inputs/{name[:100]}", "must be JSON", "JSON", text[:100]) from None
    who = Caller(id=caller or "anonymous", type="service")
    return InvocationRequest(caller=who, skill_id=callable_skill.skill_id, inputs=inputs)


_STATUS: Final = "GET, HEAD, DELETE, OPTIONS"
_RESULT: Final = "GET, HEAD, OPTIONS"
_EVENTS: Final = "text/event-stream"
_sorted: Final = msgspec.json.Encoder(order="sorted")


class Request(NamedTuple):
    """An HTTP request for an execution, with its caller and its body."""

    scope: Scope
    principal: Principal | None
    body: Body
    asked: RequestOptions

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

    ``webhook_secret`` returns the secret that signs an execution's callbacks, which ``callbacks`` bounds.
    """

    def __init__(
        self,
        service: ExecutionService,
        callables: CallableSkills,
        granted: GrantCache,
        *,
        webhook_secret: Callable[[Execution], str],
        callbacks: AddressPolicy,
        base_url: str,
    ) -> None:
        self._service = service
        self._callables = callables
        self._granted = granted
        self._webhook_secret = webhook_secret
        self._callbacks = callbacks
        self._base_url = base_url

    async def follow(self, match: EndpointMatch, request: Request, receive: Receive, send: Send) -> None:
        """Answer a request about one execution. Raises NotFoundError (``SKILL_NOT_FOUND``), StorageError."""
        allowed = _RESULT if match.purpose == "result" else _STATUS
        if request.method == "OPTIONS":
            await answer_preflight(allowed, send)
            return
        if request.method not in allowed.split(", "):
            await method_not_allowed(request.method, allowed).send(send)
            return
        execution = await self._service.ledger.find(match.execution_id)
        if execution is None or not may_follow(execution, request.principal):
            message = f"Execution '{match.execution_id[:100]}' was not found"
            raise NotFoundError("SKILL_NOT_FOUND", message, details={"execution_id": match.execution_id[:100]})
        if request.method == "DELETE":
            by = request.principal.name if request.principal else "its caller"
            execution = await self._service.cancel(execution.execution_id, by) or execution
            await self._send_execution(200, execution, request, send)
            return
        if request.method == "GET" and _EVENTS in request.asked.accept and match.purpose == "status":
            await stream(self._service, execution, request.caller, receive, send)
            return
        execution, fields = await self._wait(execution, request, request.asked.tags)
        if match.purpose == "result" and execution.output_forgotten:
            details = {"execution_id": execution.execution_id, "reason": "forgotten"}
            problem = Problem(410, "SKILL_NOT_FOUND", "The output is not kept any more", details)
            await problem.send(send, head=request.method == "HEAD")
            return
        is_pending = match.purpose == "result" and not execution.status.is_final
        await self._send_execution(202 if is_pending else 200, execution, request, send, fields)

    async def invoke(self, match: EndpointMatch, skill: Skill, request: Request, send: Send) -> None:
        """Answer a call of a skill that the caller may use. Raises SkillwireError when it is not accepted."""
        if request.method == "OPTIONS":
            await answer_preflight(f"{match.method.value}, OPTIONS", send, "Idempotency-Key")
            return
        if request.method != match.method.value:
            await method_not_allowed(request.method, f"{match.method.value}, OPTIONS").send(send)
            return
        execution, fields = await self.begin(match, skill, request)
        status = 200 if execution.status.is_final else 202
        fields["Location"] = f"{site_of(request.scope, self._base_url)}{EXECUTIONS}/{execution.execution_id}"
        if request.asked.webhook is not None:
            fields["Webhook-Secret"] = await asyncio.to_thread(self._webhook_secret, execution)
        await self._send_execution(status, execution, request, send, fields)

    async def begin(self, match: EndpointMatch, skill: Skill, request: Request) -> tuple[Execution, dict[str, str]]:
        """Accept a call of a skill that the caller may use, and wait as it asks; return the fields that say so.

        Raises SkillwireError, ProblemError (503) when it is not accepted.
        """
        callable_skill = await self.check(skill, request.principal, is_call=True)
        return await self._wait(await self._accept(match, callable_skill, request), request, "")

    async def check(self, skill: Skill, principal: Principal | None, *, is_call: bool) -> CallableSkill:
        """Return the callable skill; ``is_call`` if it is called now, and not only shown.

        Raises ValidationError, TrustError, ProblemError (503) where it cannot be called.
        """
        callable_skill = await self._callables.load(skill)
        if callable_skill is None:
            raise ValidationError("VALIDATION_ERROR", f"{skill.name} is read, not called")
        if callable_skill.needs_authentication and principal is None:
            raise TrustError("AUTH_REQUIRED", "Authentication is required to invoke this skill")
        if not await self._granted.allows(skill, is_call=is_call):
            message = "The operator has not granted that this skill runs here"
            reason = {"reason": "not_granted", "skill_id": callable_skill.skill_id}
            raise ProblemError(Problem(503, "ENDPOINT_UNREACHABLE", message, reason))
        return callable_skill

    async def _accept(self, match: EndpointMatch, callable_skill: CallableSkill, request: Request) -> Execution:
        """Return the execution of a call, without its inputs; its body is released."""
        accepted_at, webhook = self._service.clock().wall, request.asked.webhook
        if match.method in {Method.GET, Method.DELETE}:
            name = request.principal.name if request.principal else ""
            invocation = request_of_query(request.scope["query_string"], callable_skill, name)
        elif request.body.data:
            invocation = without_credentials(read_request(request.body.data, request.asked.content_type))
        else:
            raise invalid_request("", "is empty", "an InvocationRequest", None)
        if webhook is not None:
            try:
                self._callbacks.check_url(parse_url(webhook))
            except TrustError as error:  # how the operator could allow it is not for callers
                raise ValidationError("VALIDATION_ERROR", "Callback-Url: callbacks may not lead there") from error
        key = None
        if request.asked.key is not None:  # credentials may differ between two equal requests
            # Anonymous callers behind one address are distinguished by the ID that they give.
            owner = request.caller if request.principal else f"{request.caller} {invocation.caller.id}"
            key = IdempotencyKey(owner, request.asked.key, hashlib.sha256(_sorted.encode(invocation)).digest())
        accepted = await self._service.accept(
            callable_skill, Invocation(invocation, request.caller, accepted_at, webhook), key
        )
        request.body.release()
        return replace(accepted.execution, inputs=b"")

    async def _wait(self, execution: Execution, request: Request, tags: str) -> tuple[Execution, dict[str, str]]:
        """Return an execution, after the wait that was asked for, and the fields that state whether it was honoured."""
        seconds = request.asked.wait
        if not seconds:
            return execution, {}
        heeded = {"Preference-Applied": f"wait={seconds}"}
        if execution.status.is_final:
            return execution, heeded
        if not self._service.places.has_capacity(request.caller):
            return execution, {}
        with self._service.places.occupy(request.caller):
            return await self._changed(execution, tags, seconds), heeded

    async def _changed(self, execution: Execution, tags: str, seconds: float) -> Execution:
        changes, loop = self._service.changes, asyncio.get_running_loop()
        until = loop.time() + seconds
        with changes.follow(execution.execution_id) as following:
            while True:
                now = replace(await self._service.ledger.find(execution.execution_id) or execution, inputs=b"")
                has_changed = bool(tags) and not matching_tag(tags, (tag_of(encode_execution(now)),))
                left = until - loop.time()
                if now.status.is_final or has_changed or left <= 0 or changes.is_closed:
                    return now
                await following.wait(left)

    async def _send_execution(
        self,
        status: int,
        execution: Execution,
        request: Request,
        send: Send,
        more: Mapping[str, str] | None = None,
    ) -> None:
        body = await make_body(self._service, execution)
        fields = {**answer_fields(execution, body.tag, body.size, self._service.clock().wall), **(more or {})}
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
    """Whether ``principal`` may see and cancel an execution when it knows the ID."""
    if principal is not None and OPERATOR in principal.scopes:
        return True
    if execution.caller.startswith(ADDRESS):
        return True
    return principal is not None and execution.caller == caller_of(principal, "")
