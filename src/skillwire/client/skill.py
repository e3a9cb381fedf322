"""A skill at its origin, and the events of a watched call; the two clients run the same flows.

The provider of a watched call is asked to wait for the next change of the execution (``Prefer: wait``), so an event
costs one request, and nothing is sent between two events. A provider of Skill Sharing states the status alone. What a
run printed is known from endpoints of the Skills Protocol, when the run has ended.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeAlias, Unpack

from skillwire import limits
from skillwire.client.runner import AsyncRunner, RunnerT, SyncRunner, awaited, documented_by
from skillwire.errors import DecodeError, NotFoundError, SourceLocation
from skillwire.folder.frontmatter import parse_skill_md, split_body
from skillwire.model.skill import SKILL_MD
from skillwire.trust.paths import check_path
from skillwire.wire.exchange import TimeLimit, limit_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.client.calls import CallArguments, PreparedCall
    from skillwire.client.session import ClientSession
    from skillwire.model.ref import AnyArtifactType, Files, RpcFacts, SharedFacts, SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.protocols.skills_rpc.messages import DescribedSkill
    from skillwire.resolver.calls import ExecutionFollower
    from skillwire.wire.exchange import Flow


class SkillFlows(Generic[RunnerT]):
    """A skill at its origin: the facts of its index, and flows that fetch the rest, each once."""

    def __init__(
        self,
        ref: SkillRef,
        session: ClientSession,
        runner: RunnerT,
        timeout: float | None = None,
        reference: str = "",
    ) -> None:
        self._ref, self._session, self._runner, self._timeout = ref, session, runner, timeout
        self._reference = reference
        self._files: Files | None = None
        self._descriptor: SkillDescriptor | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.version or 'without version'} at {self._ref.origin}>"

    @property
    def ref(self) -> SkillRef:
        """Name, origin, description, version, digest and where it was found, as one value."""
        return self._ref

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.ref.name

    @property
    def description(self) -> str:
        """Its purpose and when to use it; hidden characters are escaped."""
        return self.ref.description

    @property
    def version(self) -> str | None:
        """Its version, if the index has one."""
        return self.ref.version

    @property
    def shared(self) -> SharedFacts | None:
        """Its facts in Skill Sharing: id, capability type, access; None if that was not asked, or lacks it."""
        return self.ref.shared

    @property
    def rpc(self) -> RpcFacts | None:
        """Its facts at an endpoint of the Skills Protocol; None if it was not found at one."""
        return self.ref.rpc

    @property
    def digest(self) -> str | None:
        """Its artifact's digest, if the index has one."""
        return self.ref.digest

    @property
    def artifact_type(self) -> AnyArtifactType:
        """``skill-md``, ``archive`` or ``files``; ``none`` for a descriptor alone."""
        return self._ref.artifact_type

    @property
    def url(self) -> str:
        """The URL of its artifact, its ``SKILL.md`` or its descriptor."""
        return self._ref.url

    def _fetch_described(self) -> Flow[DescribedSkill]:
        from skillwire.resolver.sources.skills_rpc import describe  # noqa: PLC0415  # only where it is spoken

        if self._ref.rpc is None:
            message = f"{self.name} was not found at an endpoint of the Skills Protocol"
            fix = "Its descriptor and its files describe it."
            raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(self._ref.origin), fix=fix)
        return (yield from limit_time(describe(self._ref, self._session.context), self._timeout))

    def _fetch_descriptor(self) -> Flow[SkillDescriptor]:
        flow = self._session.describe(self._ref, self._reference)
        ref, descriptor = yield from limit_time(flow, self._timeout)
        self._take(ref, descriptor)
        return descriptor

    def _take(self, ref: SkillRef, descriptor: SkillDescriptor | None) -> None:
        if ref != self._ref:
            self._ref, self._files = ref, None
        self._descriptor = descriptor

    def _known_descriptor(self) -> Flow[SkillDescriptor | None]:
        if self._descriptor is None and self._ref.rpc is None:
            yield from self._fetch_descriptor()
        return self._descriptor

    def _prepare(self, inputs: Mapping[str, Any], options: CallArguments) -> Flow[PreparedCall]:
        limit = TimeLimit(options.get("timeout"))

        def prepare(ref: SkillRef, descriptor: SkillDescriptor | None) -> Flow[PreparedCall]:
            self._take(ref, descriptor)
            return self._session.prepare_call(ref, descriptor, inputs, options)

        descriptor = yield from self._known_descriptor()
        flow = self._session.retry_with_current_inputs(self._ref, descriptor, prepare, self._reference, limit)
        return (yield from flow)

    def _call(self, inputs: Mapping[str, Any], options: CallArguments) -> Flow[RemoteExecution]:
        limit = TimeLimit(options.get("timeout"))

        def call(ref: SkillRef, descriptor: SkillDescriptor | None) -> Flow[RemoteExecution]:
            self._take(ref, descriptor)
            options["timeout"] = limit.left()
            return self._session.call(ref, descriptor, inputs, options)

        descriptor = yield from self._known_descriptor()
        flow = self._session.retry_with_current_inputs(self._ref, descriptor, call, self._reference, limit)
        return (yield from flow)

    def _fetch_files(self) -> Flow[Files]:
        if self._files is None:
            self._files = yield from self._session.files(self._ref)
        return self._files

    def _fetch_versions(self) -> Flow[list[SkillRef]]:
        if not self._ref.index_url and self._ref.git is None:
            return []
        return (yield from self._session.versions(self._ref))

    def _read_body(self) -> Flow[str]:
        content = yield from self._read_file(SKILL_MD)
        source = f"{self.name}/{SKILL_MD}"
        if self._ref.rpc is None:
            return parse_skill_md(content, source=source).body
        # The frontmatter of the Skills Protocol has other fields, and may be missing.
        try:
            return split_body(content, source=source)
        except DecodeError as error:
            if error.code != "FRONTMATTER":
                raise
            return content.decode()

    def _read_file(self, path: str) -> Flow[bytes]:
        if self._ref.rpc is not None:
            from skillwire.resolver.sources.skills_rpc import read_file  # noqa: PLC0415  # only where it is spoken

            return (yield from read_file(self._ref, path, self._session.context))
        checked = check_path(path)
        for file in (yield from self._fetch_files()):
            if file.path == checked:
                return bytes(file.content)
        raise NotFoundError("FILE_NOT_FOUND", f"{self.name} has no file {checked}")


class RemoteSkill(SkillFlows[SyncRunner]):
    """A skill: level 1 is loaded, ``body`` is level 2, ``open`` level 3. Spec: ASD, progressive disclosure."""

    def described(self) -> DescribedSkill:
        """Return its manifest and frontmatter from its endpoint; raise ``NotFoundError`` if it was not found at one."""
        return self._runner.run(self._fetch_described())

    def descriptor(self) -> SkillDescriptor:
        """Return its checked Skill Descriptor: inputs, output, endpoint and authentication.

        Raises:
            NotFoundError: none is published. FetchError, DecodeError: it cannot be fetched, is malformed.
            ValidationError: ``VALIDATION_ERROR``, ``VERSION_INCOMPATIBLE``, ``DESCRIPTOR``, ``ID_DIFFERS``.
        """
        return self._runner.run(self._fetch_descriptor())

    def call(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> RemoteExecution:
        """Call it by its descriptor, fetched if :meth:`descriptor` was not called. See :meth:`Client.call`."""
        return self._runner.run(self._call(inputs or {}, options))

    def prepare(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> PreparedCall:
        """Check a call and return the request of :meth:`call`, without sending it."""
        return self._runner.run(self._prepare(inputs or {}, options))

    def files(self) -> Files:
        """Return all files with their bytes, sorted by path; fetched and verified once.

        Raises:
            UsageError: it is at an endpoint, which lists no files; :meth:`open` reads one.
            FetchError, TrustError, DecodeError: it cannot be fetched, fails verification, is malformed.
        """
        return self._runner.run(self._fetch_files())

    def versions(self) -> list[SkillRef]:
        """Return its versions with their ``release``, the highest first; empty where its origin lists none."""
        return self._runner.run(self._fetch_versions())

    def body(self) -> str:
        """Return the instructions: ``SKILL.md`` without its frontmatter."""
        return self._runner.run(self._read_body())

    def open(self, path: str) -> bytes:
        """Return the bytes of one file; of a skill at an endpoint also of a blob, by its id.

        Raises:
            TrustError: a path outside the skill. NotFoundError: ``FILE_NOT_FOUND``.
        """
        return self._runner.run(self._read_file(path))


@documented_by(RemoteSkill)
class AsyncRemoteSkill(SkillFlows[AsyncRunner]):
    """The same as :class:`RemoteSkill`, awaited."""

    described = awaited(RemoteSkill.described)
    descriptor = awaited(RemoteSkill.descriptor)
    call = awaited(RemoteSkill.call)
    prepare = awaited(RemoteSkill.prepare)
    files = awaited(RemoteSkill.files)
    versions = awaited(RemoteSkill.versions)
    body = awaited(RemoteSkill.body)
    open = awaited(RemoteSkill.open)


EventKind: TypeAlias = Literal["accepted", "running", "waiting", "log", "completed", "failed", "timeout"]


class CallEvent(NamedTuple):
    """What happened to a watched call.

    Args:
        kind: the new status: ``accepted``, ``running``, ``completed``, ``failed`` or ``timeout``; ``waiting`` when the
            provider answered without a change, for which it is asked to wait 30 s; ``log`` for a line of the run.
        execution: its state now; the event ``completed`` has the output.
        text: the line of a ``log``.
    """

    kind: EventKind
    execution: RemoteExecution
    text: str = ""


class _WatchFlows(Generic[RunnerT]):
    """The events of one call, as flows. ``execution`` is its latest state; None before the call was accepted."""

    def __init__(
        self,
        runner: RunnerT,
        session: ClientSession,
        reference: str,
        inputs: Mapping[str, Any],
        options: CallArguments,
        *,
        use_unverified: bool | None,
    ) -> None:
        self.execution: RemoteExecution | None = None
        self._session, self._runner = session, runner
        self._limit = TimeLimit(limits.CALL_WAIT_SECONDS if (seconds := options.get("timeout")) is None else seconds)
        self._begin = session.call_reference(
            reference, inputs, options, use_unverified=use_unverified, is_followed=True
        )
        self._follower: ExecutionFollower | None = None
        self._events: deque[CallEvent] = deque()
        self._is_closed = False

    @property
    def goes_on(self) -> bool:
        """Whether the execution had not ended when its provider was last asked."""
        return self.execution is not None and not self.execution.is_final

    def _stop(self) -> bool:
        self._is_closed = True
        self._events.clear()
        self._begin.close()
        return self.goes_on

    def _next(self) -> Flow[CallEvent | None]:
        """Return the next event; None at the end of the execution or of the time, and after ``close``."""
        while not self._events:
            before = self.execution
            if self._is_closed or self._limit.is_over or (before is not None and before.is_final):
                return None
            try:
                if before is None:
                    now = yield from self._begin
                elif self._follower is None:
                    self._follower = yield from self._session.calls.follower(before)
                    now = self._follower.execution
                else:
                    now = yield from self._follower.follow_once(self._limit.left() or 0.0)
            except BaseException:
                self._is_closed = True
                raise
            self.execution = now
            if now.is_final:
                self._events.extend(CallEvent("log", now, line) for line in now.log.splitlines())
            is_changed = before is None or now.status is not before.status
            self._events.append(CallEvent(now.status.value if is_changed else "waiting", now))
        return self._events.popleft()


class CallWatch(_WatchFlows[SyncRunner]):
    """The events of a call, from :meth:`Client.watch`: an iterator and a context manager."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> CallEvent:
        event = self._runner.run(self._next())
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> bool:
        """Stop waiting; return whether the execution goes on at its provider."""
        return self._stop()


class AsyncCallWatch(_WatchFlows[AsyncRunner]):
    """The same as :class:`CallWatch`, awaited."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CallEvent:
        event = await self._runner.run(self._next())
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()

    async def close(self) -> bool:
        """Stop waiting; return whether the execution goes on at its provider."""
        return self._stop()
