"""The methods of an endpoint of the Skills Protocol, awaited."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from skillwire import limits
from skillwire.client.rpc_values import BlobPart, part_of, run_milliseconds, run_seconds
from skillwire.protocols.skills_rpc.codec import decode_described, decode_file, decode_page, decode_run
from skillwire.protocols.skills_rpc.messages import (
    DescribeSkill,
    ExecuteSkill,
    ListSkills,
    LoadGuide,
    ReadBlob,
    ReadSkillFile,
    RunCode,
    RunLimits,
)
from skillwire.resolver.sources.skills_rpc import (
    Pages,
    ask,
    ask_any,
    bytes_of,
    create_blob,
    read_blob,
    read_text_or_bytes,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from skillwire.client.runner import AsyncRunner
    from skillwire.client.session import ClientSession
    from skillwire.protocols.skills_rpc.messages import (
        BlobMode,
        CreatedBlob,
        DescribedSkill,
        ListDetail,
        ListedSkill,
        Params,
        RunResult,
        SkillDetail,
        SkillPage,
    )

T = TypeVar("T")


class AsyncRpcSkills:
    """An endpoint of the Skills Protocol, a method of it each: from :meth:`AsyncClient.rpc`.

    Answers are checked: names, lists and runs have the shape that the protocol promises, and texts of a list no hidden
    characters. Manifests, files and outputs are as the endpoint has sent them. Every method raises ``NotFoundError``
    for ``SKILL_NOT_FOUND``, ``FILE_NOT_FOUND`` and ``RPC_METHOD``, ``ValidationError`` for ``RPC_PARAMS``
    or a closer code that a server of ours tells, ``UsageError`` for such a code of usage (``CURSOR``), ``FetchError``
    for ``AUTH_REQUIRED``, ``PERMISSION_DENIED`` and what the network says, ``DecodeError`` and ``ValidationError`` for
    an answer that is malformed. Spec: SKP; specs §4.
    """

    def __init__(self, endpoint: str, session: ClientSession, runner: AsyncRunner) -> None:
        self._endpoint, self._session, self._runner = endpoint, session, runner

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return self._endpoint

    async def list_skills(
        self, namespace: str | None = None, *, detail: ListDetail = "names", limit: int = 50, cursor: str | None = None
    ) -> SkillPage:
        """Return one page of skills, of a namespace or of all; ``next_cursor`` begins the next page."""
        params = ListSkills(namespace=namespace, detail=detail, limit=limit, cursor=cursor)
        return await self._ask(params, decode_page)

    async def iterate(
        self, namespace: str | None = None, *, detail: ListDetail = "summary"
    ) -> AsyncIterator[ListedSkill]:
        """Yield every skill, of a namespace or of all, page by page.

        Raises:
            ValidationError: ``RPC_ANSWER`` for a list that goes in a circle, ``LIMIT_ENTRIES`` for one that does not
            end. Otherwise as every method does.
        """
        pages, cursor = Pages(self._endpoint), None
        while True:
            most = int(limits.RPC_PAGE)
            page = await self.list_skills(namespace, detail=detail, limit=most, cursor=cursor)
            cursor = pages.after(page)
            for skill in page.skills:
                yield skill
            if cursor is None:
                return

    async def describe_skill(
        self, name: str, *, version: str | None = None, detail: SkillDetail = "summary"
    ) -> DescribedSkill:
        """Return a skill's manifest, its frontmatter unless ``detail`` is ``manifest``, its SKILL.md with ``full``."""
        return await self._ask(DescribeSkill(name=name, version=version, detail=detail), decode_described)

    async def read_skill_file(self, name: str, path: str, *, version: str | None = None) -> bytes:
        """Return the bytes of one file of a skill."""
        params = ReadSkillFile(name=name, path=path, version=version)
        flow = partial(read_text_or_bytes, self._endpoint, params, decode=decode_file)
        file = await self._runner.run(self._session.ask_endpoint(self._endpoint, flow))
        return bytes_of(file, self._endpoint)

    async def execute_skill(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        version: str | None = None,
        input_blobs: Sequence[str] = (),
        timeout: float | None = None,
    ) -> RunResult:
        """Execute a skill and wait; return its run, which may have failed.

        Args:
            name: of the skill.
            args: its inputs.
            version: of the skill; the latest unless given.
            input_blobs: ids of blobs that it is given as files.
            timeout: seconds that it may take; the endpoint is told.

        Raises:
            FetchError: ``PERMISSION_DENIED`` unless the endpoint's policy lets it be executed. As every method.
        """
        params = ExecuteSkill(
            name=name,
            args=dict(args or {}),
            version=version,
            input_blobs=tuple(input_blobs),
            timeout_ms=run_milliseconds(timeout),
        )
        return await self._ask(params, decode_run, timeout=run_seconds(timeout))

    async def run_code(
        self,
        code: str,
        args: Mapping[str, Any] | None = None,
        *,
        entrypoint: str = "main",
        mount_skills: Sequence[str] = (),
        input_blobs: Sequence[str] = (),
        timeout: float | None = None,
    ) -> RunResult:
        """Run Python in the endpoint's sandbox and wait; return its run, which may have failed.

        Args:
            code: the source.
            args: what the function is called with.
            entrypoint: the name of the function.
            mount_skills: names of skills whose files it finds.
            input_blobs: ids of blobs that it is given as files.
            timeout: seconds that it may take; the endpoint is told.

        Raises what :meth:`execute_skill` does.
        """
        params = RunCode(
            code=code,
            entrypoint=entrypoint,
            args=dict(args or {}),
            mount_skills=tuple(mount_skills),
            input_blobs=tuple(input_blobs),
            limits=RunLimits(timeout_ms=run_milliseconds(timeout)),
        )
        return await self._ask(params, decode_run, timeout=run_seconds(timeout))

    async def create_blob(self, content: bytes | str, kind: str = "application/octet-stream") -> CreatedBlob:
        """Keep bytes or a text of the media type ``kind`` at the endpoint for a while; return the id."""
        data = content.encode() if isinstance(content, str) else content
        flow = partial(create_blob, self._endpoint, data, kind)
        return await self._runner.run(self._session.ask_endpoint(self._endpoint, flow))

    async def read_blob(
        self, blob_id: str, *, mode: BlobMode = "sample_head", max_bytes: int | None = None
    ) -> BlobPart:
        """Return the beginning of a blob, its end (``sample_tail``) or all of it (``full``), as bytes."""
        params = ReadBlob(blob_id=blob_id, mode=mode, max_bytes=max_bytes)
        flow = partial(read_blob, self._endpoint, params)
        told = await self._runner.run(self._session.ask_endpoint(self._endpoint, flow))
        return part_of(told, self._endpoint)

    async def load_skills_protocol_guide(self) -> str:
        """Return the guide that every endpoint has for models."""
        return (await self._ask(LoadGuide(), decode_file)).content

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any method by its name; return its result as it came, checked by nothing."""
        flow = partial(ask_any, self._endpoint, method, params or {})
        return await self._runner.run(self._session.ask_endpoint(self._endpoint, flow))

    async def _ask(
        self, params: Params, decode: Callable[[object, str], T], *, timeout: float = limits.HTTP_REQUEST_SECONDS
    ) -> T:
        flow = partial(ask, self._endpoint, params, decode=decode, timeout=timeout)
        return await self._runner.run(self._session.ask_endpoint(self._endpoint, flow))
