"""The methods of an endpoint of the Skills Protocol: bytes where the wire has text or base64.

:class:`RpcSkills` and :class:`AsyncRpcSkills` run the same flows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from skillwire import limits
from skillwire.client.calls import run_milliseconds, run_seconds
from skillwire.client.runner import AsyncRunner, RunnerT, SyncRunner, awaited, documented_by
from skillwire.protocols.skills_rpc.codec import decode_blob, decode_described, decode_file, decode_page, decode_run
from skillwire.protocols.skills_rpc.messages import (
    BlobMode,
    CreatedBlob,
    DescribedSkill,
    DescribeSkill,
    ExecuteSkill,
    ListDetail,
    ListedSkill,
    ListSkills,
    LoadGuide,
    Params,
    ReadBlob,
    ReadSkillFile,
    RunCode,
    RunLimits,
    RunResult,
    SkillDetail,
    SkillPage,
)
from skillwire.resolver.sources.skills_rpc import (
    Pages,
    ask,
    ask_any,
    bytes_of,
    create_blob,
    read_text_or_bytes,
)
from skillwire.wire.exchange import Flow, work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from skillwire.client.session import ClientSession

T = TypeVar("T")


class BlobPart(NamedTuple):
    """A part of a blob, or all of it; ``size`` is that of the whole blob in bytes, ``kind`` its media type."""

    content: bytes
    size: int
    truncated: bool
    kind: str


class _RpcFlows(Generic[RunnerT]):
    """The methods as flows. The user has named the endpoint, which allows connecting to it."""

    def __init__(self, endpoint: str, session: ClientSession, runner: RunnerT) -> None:
        self._endpoint, self._session, self._runner = endpoint, session, runner

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return self._endpoint

    def _after_allowing(self, flow: Flow[T]) -> Flow[T]:
        yield from work(lambda: self._session.access.allow_url(self._endpoint))
        return (yield from flow)

    def _ask(
        self, params: Params, decode: Callable[[object, str], T], *, timeout: float = limits.HTTP_REQUEST_SECONDS
    ) -> Flow[T]:
        return self._after_allowing(ask(self._endpoint, params, self._session.context, decode, timeout=timeout))

    def _read_skill_file(self, params: ReadSkillFile) -> Flow[bytes]:
        file = yield from read_text_or_bytes(self._endpoint, params, self._session.context, decode_file)
        return bytes_of(file, self._endpoint)

    def _read_blob(self, params: ReadBlob) -> Flow[BlobPart]:
        found = yield from read_text_or_bytes(self._endpoint, params, self._session.context, decode_blob)
        return BlobPart(bytes_of(found, self._endpoint), found.size_bytes, found.truncated, found.kind)


class RpcSkills(_RpcFlows[SyncRunner]):
    """The methods of an endpoint of the Skills Protocol: from :meth:`Client.rpc`.

    Names, lists and runs are validated, and texts of a list have no hidden characters; manifests, files and outputs are
    as the endpoint sent them. Every method raises ``NotFoundError`` for ``SKILL_NOT_FOUND``, ``FILE_NOT_FOUND`` and
    ``RPC_METHOD``, ``ValidationError`` for ``RPC_PARAMS`` or a closer code of our server, ``UsageError`` for
    ``CURSOR``, ``FetchError`` for ``AUTH_REQUIRED``, ``PERMISSION_DENIED`` and network errors, ``DecodeError`` and
    ``ValidationError`` for a malformed answer. Spec: SKP; specs §4.
    """

    def list_skills(
        self, namespace: str | None = None, *, detail: ListDetail = "names", limit: int = 50, cursor: str | None = None
    ) -> SkillPage:
        """Return one page of skills, of a namespace or of all; ``next_cursor`` begins the next page."""
        params = ListSkills(namespace=namespace, detail=detail, limit=limit, cursor=cursor)
        return self._runner.run(self._ask(params, decode_page))

    def iterate(self, namespace: str | None = None, *, detail: ListDetail = "summary") -> Iterator[ListedSkill]:
        """Yield every skill, of a namespace or of all, page by page; raise ``LIMIT_ENTRIES`` for an endless list."""
        pages, cursor = Pages(self._endpoint), None
        while True:
            page = self.list_skills(namespace, detail=detail, limit=int(limits.RPC_PAGE), cursor=cursor)
            cursor = pages.after(page)
            yield from page.skills
            if cursor is None:
                return

    def describe_skill(
        self, name: str, *, version: str | None = None, detail: SkillDetail = "summary"
    ) -> DescribedSkill:
        """Return a skill's manifest, its frontmatter unless ``detail`` is ``manifest``, its SKILL.md with ``full``."""
        params = DescribeSkill(name=name, version=version, detail=detail)
        return self._runner.run(self._ask(params, decode_described))

    def read_skill_file(self, name: str, path: str, *, version: str | None = None) -> bytes:
        """Return the bytes of one file of a skill."""
        params = ReadSkillFile(name=name, path=path, version=version)
        return self._runner.run(self._after_allowing(self._read_skill_file(params)))

    def execute_skill(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        input_blobs: Sequence[str] = (),
        timeout: float | None = None,
    ) -> RunResult:
        """Execute a skill and wait, for ``timeout`` seconds; return its run, which may have failed.

        ``input_blobs`` are ids of blobs that it gets as files; ``version`` is the latest by default.
        """
        params = ExecuteSkill(
            name=name,
            args=dict(args or {}),
            version=version,
            input_blobs=tuple(input_blobs),
            timeout_ms=run_milliseconds(timeout),
        )
        return self._runner.run(self._ask(params, decode_run, timeout=run_seconds(timeout)))

    def run_code(
        self,
        code: str,
        args: Mapping[str, Any] | None = None,
        *,
        entrypoint: str = "main",
        mount_skills: Sequence[str] = (),
        input_blobs: Sequence[str] = (),
        timeout: float | None = None,
    ) -> RunResult:
        """Run Python in the endpoint's sandbox and wait, for ``timeout`` seconds; return its run, which may fail.

        It calls the function ``entrypoint``, with the files of the skills ``mount_skills`` and of the blobs
        ``input_blobs``.
        """
        params = RunCode(
            code=code,
            entrypoint=entrypoint,
            args=dict(args or {}),
            mount_skills=tuple(mount_skills),
            input_blobs=tuple(input_blobs),
            limits=RunLimits(timeout_ms=run_milliseconds(timeout)),
        )
        return self._runner.run(self._ask(params, decode_run, timeout=run_seconds(timeout)))

    def create_blob(self, content: bytes | str, kind: str = "application/octet-stream") -> CreatedBlob:
        """Store bytes or a text of the media type ``kind`` at the endpoint for a while; return its id."""
        data = content.encode() if isinstance(content, str) else content
        return self._runner.run(self._after_allowing(create_blob(self._endpoint, data, kind, self._session.context)))

    def read_blob(self, blob_id: str, *, mode: BlobMode = "sample_head", max_bytes: int | None = None) -> BlobPart:
        """Return the beginning of a blob, its end (``sample_tail``) or all of it (``full``), as bytes."""
        params = ReadBlob(blob_id=blob_id, mode=mode, max_bytes=max_bytes)
        return self._runner.run(self._after_allowing(self._read_blob(params)))

    def load_skills_protocol_guide(self) -> str:
        """Return the guide that every endpoint has for models."""
        return (self._runner.run(self._ask(LoadGuide(), decode_file))).content

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any method by its name; return its result unchecked."""
        return self._runner.run(
            self._after_allowing(ask_any(self._endpoint, method, params or {}, self._session.context))
        )


@documented_by(RpcSkills)
class AsyncRpcSkills(_RpcFlows[AsyncRunner]):
    """The same as :class:`RpcSkills`, awaited."""

    list_skills = awaited(RpcSkills.list_skills)

    async def iterate(
        self, namespace: str | None = None, *, detail: ListDetail = "summary"
    ) -> AsyncIterator[ListedSkill]:
        pages, cursor = Pages(self._endpoint), None
        while True:
            page = await self.list_skills(namespace, detail=detail, limit=int(limits.RPC_PAGE), cursor=cursor)
            cursor = pages.after(page)
            for skill in page.skills:
                yield skill
            if cursor is None:
                return

    describe_skill = awaited(RpcSkills.describe_skill)
    read_skill_file = awaited(RpcSkills.read_skill_file)
    execute_skill = awaited(RpcSkills.execute_skill)
    run_code = awaited(RpcSkills.run_code)
    create_blob = awaited(RpcSkills.create_blob)
    read_blob = awaited(RpcSkills.read_blob)

    async def load_skills_protocol_guide(self) -> str:
        return (await self._runner.run(self._ask(LoadGuide(), decode_file))).content

    call = awaited(RpcSkills.call)
