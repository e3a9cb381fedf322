"""A publisher without a network: answers requests from a dictionary, in place of a driver.

    publisher = SimulatedPublisher()
    publisher.answer("https://example.com/.well-known/agent-skills/index.json", index_bytes)
    client.driver = publisher

It answers conditional requests, records every request, and can be made to fail. A row of answers to one method serves
what changes between requests, such as the status of an execution:

    publisher.reply("POST", "https://example.com/invoke", accepted)
    publisher.reply("GET", "https://example.com/status/exec-1", running, FetchError(...), completed)

``publish`` makes the documents of a callable skill, and answers its calls, at once or by way of other states. Clients
keep files as they always do: set ``SKILLWIRE_HOME`` to a temporary folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET

from skillwire.errors import SkillwireError
from skillwire.model.access import Access
from skillwire.model.execution import ExecutionStatus
from skillwire.protocols.skill_sharing.messages import (
    PROTOCOL_VERSION,
    AuthConfig,
    AuthType,
    CapabilityType,
    InvocationEndpoint,
    InvocationResponse,
    Method,
    OutputDefinition,
    ParameterDefinition,
    ProtocolVersion,
    Provider,
    SkillDescriptor,
    SkillIndex,
    SkillIndexEntry,
    Timestamps,
)
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import All, Flow, HttpRequest, HttpResponse, Step, Work, drive

T = TypeVar("T")
_PROTOCOL: Final = ProtocolVersion(version=PROTOCOL_VERSION)
_TIME: Final = "2026-01-01T00:00:00Z"


def _answer_of(name: str, skill_id: str, status: ExecutionStatus, output: Any = UNSET) -> HttpResponse:
    ends = _TIME if status.is_final else UNSET
    times = Timestamps(created_at=_TIME, updated_at=_TIME, completed_at=ends)
    response = InvocationResponse(
        execution_id=f"exec-{name}", status=status, skill_id=skill_id, output=output, timestamps=times
    )
    code, fields = (200, {}) if status.is_final else (202, {"preference-applied": "wait"})  # no pause before the next
    return HttpResponse("", code, {"content-type": "application/json", **fields}, msgspec.json.encode(response))


class _Answers:
    """The answers of a simulated publisher; ``requests`` has all requests in order."""

    def __init__(self) -> None:
        self.policy = AddressPolicy()
        self.on_traffic: Callable[[str, int], object] = lambda *_: None
        self.requests: list[HttpRequest] = []
        self._answers: dict[str, HttpResponse | SkillwireError] = {}
        self._rows: dict[tuple[str, str], list[HttpResponse | SkillwireError]] = {}
        self._entries: dict[str, dict[str, SkillIndexEntry]] = {}

    def publish(
        self,
        origin: str,
        name: str,
        output: Any,
        *,
        inputs: Mapping[str, str] | None = None,
        states: Sequence[Literal["accepted", "running"]] = (),
    ) -> str:
        """Publish a skill at ``origin`` (``https://example.com``) whose calls end with ``output``, a JSON value.

        ``inputs`` has the JSON type of each required input by name. A call is answered with the first of ``states``,
        its status URL with the others and then with the output. Lost calls can be repeated, as by ``Idempotency-Key``.
        Returns the URL that calls are posted to, for other outcomes by :meth:`reply`.
        """
        url, descriptor_url = f"{origin}/call/{name}", f"{origin}/descriptors/{name}.json"
        head: dict[str, Any] = {
            "id": f"{origin.partition('://')[2]}/{name}",
            "name": name,
            "version": "1.0.0",
            "capability_type": CapabilityType.API,
            "description": f"The simulated skill {name}.",
            "access": Access.PUBLIC,
        }
        listed = self._entries.setdefault(origin, {})
        listed[name] = SkillIndexEntry(descriptor_url=descriptor_url, **head)
        index = SkillIndex(protocol=_PROTOCOL, provider=Provider(name=origin), skills=[*listed.values()])
        descriptor = SkillDescriptor(
            protocol=_PROTOCOL,
            provider=Provider(name=origin),
            endpoint=InvocationEndpoint(url=url, method=Method.POST, status_url=f"{origin}/status/{{execution_id}}"),
            inputs=[
                ParameterDefinition(name=key, type=kind, description=key, required=True)
                for key, kind in (inputs or {}).items()
            ],
            output=OutputDefinition(content_type="application/json"),
            auth=AuthConfig(type=AuthType.NONE),
            **head,
        )
        self.answer(f"{origin}/.well-known/skill-sharing", msgspec.json.encode(index))
        self.answer(descriptor_url, msgspec.json.encode(descriptor))
        answers = [_answer_of(name, head["id"], ExecutionStatus(state)) for state in states]
        answers.append(_answer_of(name, head["id"], ExecutionStatus.COMPLETED, output))
        self.reply("POST", url, answers[0])
        self.reply("GET", f"{origin}/status/exec-{name}", *(answers[1:] or answers))
        self.reply("OPTIONS", url, HttpResponse(url, 204, {"access-control-allow-headers": "Idempotency-Key"}, b""))
        return url

    def answer(self, url: str, body: bytes, *, status: int = 200, **headers: str) -> None:
        """Answer requests for ``url`` with ``body``; ``cache_control="no-cache"`` becomes that header."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields.setdefault("etag", f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        self._answers[url] = HttpResponse(url, status, fields, body)

    def reply(self, method: str, url: str, *outcomes: HttpResponse | SkillwireError) -> None:
        """Answer requests of ``method`` for ``url`` with ``outcomes`` in order, and then with the last one."""
        self._rows[method, url] = [one._replace(url=url) if isinstance(one, HttpResponse) else one for one in outcomes]

    def fail(self, url: str, error: SkillwireError) -> None:
        """Fail requests for ``url`` with ``error``."""
        self._answers[url] = error

    def forget(self, url: str) -> None:
        """Answer requests for ``url`` with 404 again."""
        del self._answers[url]

    def _answer(self, request: HttpRequest) -> HttpResponse:
        outcome = self._ask(request)
        if isinstance(outcome, SkillwireError):
            raise outcome
        return outcome

    def _ask(self, request: HttpRequest) -> HttpResponse | SkillwireError:
        self.requests.append(request)
        if row := self._rows.get((request.method, request.url)):
            return row.pop(0) if len(row) > 1 else row[0]
        found = self._answers.get(request.url)
        if isinstance(found, HttpResponse) and request.headers.get("If-None-Match") == found.headers["etag"]:
            return HttpResponse(request.url, 304, found.headers, b"")
        return found or HttpResponse(request.url, 404, {}, b"")


class SimulatedPublisher(_Answers):
    """Replaces :class:`skillwire.adapters.http.sync.SyncDriver` as the ``driver`` of a ``Client``."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Answer one request; raise the error of :meth:`fail` or :meth:`reply`."""
        return self._answer(request)

    def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end and return its result, without waiting."""
        return drive(flow, self._do)

    def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], T] | None = None,
        on_done: Callable[[], object] = lambda: None,
        is_enough: Callable[[T], bool] = lambda _: False,
        delays: Sequence[float] = (),  # noqa: ARG002  # the form of drivers
    ) -> list[T | SkillwireError]:
        """Run ``flows``, one after the other; return their results or errors, in order."""
        waiting = list(flows)
        results: list[Any] = [None] * len(waiting)
        for number, flow in enumerate(waiting):
            try:
                results[number] = result = (run or self.run)(flow)
            except SkillwireError as error:
                results[number] = error
            else:
                if is_enough(result):
                    break
            on_done()
        return results

    def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return self.send(step)
        if isinstance(step, All):
            return self.run_all(**step._asdict())
        return step.call() if isinstance(step, Work) else None

    def close(self) -> None:
        """Do nothing."""


class AsyncSimulatedPublisher(_Answers):
    """Replaces :class:`skillwire.adapters.http.asynchronous.AsyncDriver` as the ``driver`` of an ``AsyncClient``."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Answer one request; raise the error of :meth:`fail` or :meth:`reply`."""
        return self._answer(request)

    async def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], Awaitable[T]],
        on_done: Callable[[], object] = lambda: None,
        is_enough: Callable[[T], bool] = lambda _: False,
        delays: Sequence[float] = (),  # noqa: ARG002  # the form of drivers
    ) -> list[T | SkillwireError]:
        """Run ``flows``, one after the other; return their results or errors, in order."""
        waiting = list(flows)
        results: list[Any] = [None] * len(waiting)
        for number, flow in enumerate(waiting):
            try:
                results[number] = result = await run(flow)
            except SkillwireError as error:
                results[number] = error
            else:
                if is_enough(result):
                    break
            on_done()
        return results

    async def close(self) -> None:
        """Do nothing."""
