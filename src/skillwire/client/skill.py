"""A skill at its origin: level 1 is at hand, ``body`` is level 2, ``open`` level 3. Spec: ASD Progressive Disclosure.

:class:`RemoteSkill` and :class:`AsyncRemoteSkill` run the same flows; an artifact is fetched once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Unpack

from skillwire.errors import DecodeError, NotFoundError, SourceLocation
from skillwire.folder.frontmatter import parse_skill_md, split_body
from skillwire.trust.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.client.calls import CallArguments, PreparedCall
    from skillwire.client.runner import AsyncRunner, SyncRunner
    from skillwire.client.session import ClientSession
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.ref import Files, RpcFacts, SharedFacts, SkillRef
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.protocols.skills_rpc.messages import DescribedSkill
    from skillwire.wire.exchange import Flow

_SKILL_MD: Final = "SKILL.md"


class SkillFlows:
    """A skill at its origin: what its index says, and as flows what is fetched of it, each once."""

    def __init__(self, ref: SkillRef, session: ClientSession) -> None:
        self._ref, self._session = ref, session
        self._files: Files | None = None
        self._descriptor: SkillDescriptor | None = None

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
        """What it does and when to use it; hidden characters are shown as escapes."""
        return self.ref.description

    @property
    def version(self) -> str | None:
        """Its version, where the index says it."""
        return self.ref.version

    @property
    def shared(self) -> SharedFacts | None:
        """What Skill Sharing says of it: id, capability type, access; None where that was not asked or is silent."""
        return self.ref.shared

    @property
    def rpc(self) -> RpcFacts | None:
        """What an endpoint of the Skills Protocol says of it; None where it was not found at one."""
        return self.ref.rpc

    @property
    def digest(self) -> str | None:
        """Its artifact's digest; None where the index has none."""
        return self.ref.digest

    @property
    def artifact_type(self) -> str:
        """``skill-md``, ``archive`` or ``files``; ``none`` where there is a descriptor alone."""
        return self._ref.artifact_type

    @property
    def url(self) -> str:
        """Where its artifact, or its ``SKILL.md``, or else its descriptor, is fetched from."""
        return self._ref.url

    def _fetch_described(self) -> Flow[DescribedSkill]:
        """Return the manifest and the frontmatter of a skill of an endpoint."""
        from skillwire.resolver.sources.skills_rpc import describe  # noqa: PLC0415  # only where it is spoken

        if self._ref.rpc is None:
            message = f"{self.name} was not found at an endpoint of the Skills Protocol"
            fix = "Its descriptor says how it is called, its files what it does."
            raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(self._ref.origin), fix=fix)
        return (yield from describe(self._ref, self._session.context))

    def _fetch_descriptor(self) -> Flow[SkillDescriptor]:
        self._descriptor = yield from self._session.describe(self._ref)
        return self._descriptor

    def _prepare(self, inputs: Mapping[str, Any], options: CallArguments) -> Flow[PreparedCall]:
        descriptor = self._descriptor
        if descriptor is None and self._ref.rpc is None:
            descriptor = yield from self._fetch_descriptor()
        return (yield from self._session.prepare_call(self._ref, descriptor, inputs, options))

    def _call(self, inputs: Mapping[str, Any], options: CallArguments) -> Flow[RemoteExecution]:
        descriptor = self._descriptor
        if descriptor is None and self._ref.rpc is None:
            descriptor = yield from self._fetch_descriptor()
        return (yield from self._session.call(self._ref, descriptor, inputs, options))

    def _fetch_files(self) -> Flow[Files]:
        if self._files is None:
            self._files = yield from self._session.files(self._ref)
        return self._files

    def _read_body(self) -> Flow[str]:
        content = yield from self._read_file(_SKILL_MD)
        source = f"{self.name}/{_SKILL_MD}"
        if self._ref.rpc is None:
            return parse_skill_md(content, source=source).body
        # The Skills Protocol has fields of its own in a frontmatter, and names with spaces; a text may have none.
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


class RemoteSkill(SkillFlows):
    """A skill at its origin: level 1 is at hand, ``body`` is level 2, ``open`` level 3.

    Spec: ASD Progressive Disclosure.
    """

    def __init__(self, ref: SkillRef, session: ClientSession, runner: SyncRunner) -> None:
        super().__init__(ref, session)
        self._runner = runner

    def described(self) -> DescribedSkill:
        """Return its manifest and the frontmatter of its ``SKILL.md``, as an endpoint of the Skills Protocol has them.

        Raises:
            NotFoundError: it was not found at an endpoint. FetchError, DecodeError, ValidationError: it cannot be had,
            is malformed.
        """
        return self._runner.run(self._fetch_described())

    def descriptor(self) -> SkillDescriptor:
        """Return its Skill Descriptor: inputs, output, endpoint and how callers authenticate; checked in full.

        Raises:
            NotFoundError: none is published. ValidationError: ``VALIDATION_ERROR``, ``VERSION_INCOMPATIBLE``,
            ``DESCRIPTOR``, ``ID_DIFFERS``. FetchError, DecodeError: it cannot be had, is malformed.
        """
        return self._runner.run(self._fetch_descriptor())

    def call(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> RemoteExecution:
        """Call it, by the descriptor that was last returned, or else by one that is fetched now.

        Arguments, result and errors are those of :meth:`Client.call` and :meth:`descriptor`.
        """
        return self._runner.run(self._call(inputs or {}, options))

    def prepare(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> PreparedCall:
        """Check a call and return the request that :meth:`call` would send; nothing is sent to the endpoint."""
        return self._runner.run(self._prepare(inputs or {}, options))

    def files(self) -> Files:
        """Return all files with their bytes, sorted by path; fetched and verified once.

        Raises:
            UsageError: it is at an endpoint, which lists none; :meth:`open` reads one.
            FetchError, TrustError, DecodeError: it cannot be had, is not what was promised, is malformed.
        """
        return self._runner.run(self._fetch_files())

    def body(self) -> str:
        """Return the instructions: ``SKILL.md`` without its frontmatter. Raises what :meth:`files` does."""
        return self._runner.run(self._read_body())

    def open(self, path: str) -> bytes:
        """Return the bytes of one file. Of a skill at an endpoint that is fetched alone, and may be the id of a blob.

        Raises:
            TrustError: a path that leads out. NotFoundError: ``FILE_NOT_FOUND``. What :meth:`files` raises.
        """
        return self._runner.run(self._read_file(path))


class AsyncRemoteSkill(SkillFlows):
    """A skill at its origin: level 1 is at hand, ``body`` is level 2, ``open`` level 3.

    Spec: ASD Progressive Disclosure.
    """

    def __init__(self, ref: SkillRef, session: ClientSession, runner: AsyncRunner) -> None:
        super().__init__(ref, session)
        self._runner = runner

    async def described(self) -> DescribedSkill:
        """As :meth:`RemoteSkill.described`."""
        return await self._runner.run(self._fetch_described())

    async def descriptor(self) -> SkillDescriptor:
        """As :meth:`RemoteSkill.descriptor`."""
        return await self._runner.run(self._fetch_descriptor())

    async def call(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> RemoteExecution:
        """As :meth:`RemoteSkill.call`."""
        return await self._runner.run(self._call(inputs or {}, options))

    async def prepare(self, inputs: Mapping[str, Any] | None = None, **options: Unpack[CallArguments]) -> PreparedCall:
        """As :meth:`RemoteSkill.prepare`."""
        return await self._runner.run(self._prepare(inputs or {}, options))

    async def files(self) -> Files:
        """As :meth:`RemoteSkill.files`."""
        return await self._runner.run(self._fetch_files())

    async def body(self) -> str:
        """As :meth:`RemoteSkill.body`."""
        return await self._runner.run(self._read_body())

    async def open(self, path: str) -> bytes:
        """As :meth:`RemoteSkill.open`."""
        return await self._runner.run(self._read_file(path))
