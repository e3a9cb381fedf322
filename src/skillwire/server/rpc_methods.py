"""The Skills Protocol without HTTP: its methods, batches, byte quotas, and the lists of each view.

The calls of a batch do not affect each other, and a few run at a time. Requests and responses are counted together, for
all callers and for each address, until the response is out. An answer that does not fit is reported as too large.

The text of all skills is written in a thread with the first request after a revision; the list of a view is a selection
from it. Spec: SKP; JSON-RPC 2.0 §5, §6; specs §4. Trust: untrusted requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from skillwire import limits
from skillwire.errors import DecodeError, FetchError, SkillwireError, StorageError, TrustError, one_line
from skillwire.protocols.skills_rpc.codec import (
    Batch,
    Call,
    Refused,
    decode,
    decode_params,
    encode_blob,
    encode_error,
    encode_result,
    encode_run,
    join_batch,
    params_type,
)
from skillwire.protocols.skills_rpc.server import SkillIndex, SkillsRpc
from skillwire.server.http import PAGE_REFUSED, client_address
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.quotas import network_of
from skillwire.server.request_bodies import COMPRESSED, Bodies, Body, Bounds
from skillwire.server.revision import SharedWork, has_failed

if TYPE_CHECKING:
    from starlette.types import Scope

    from skillwire.ports import BlobStore
    from skillwire.server.revision import AccessView, IndexCache, Revision
    from skillwire.server.runs import Runs

#: The status in logs when the client disconnected before the answer, as other servers write it.
GONE: Final = 499


#: Of requests and their answers.
RPC_BOUNDS: Final = Bounds(
    limits.RPC_REQUEST_BYTES,
    limits.RPC_HELD_BYTES,
    limits.RPC_HELD_ADDRESS_BYTES,
    Problem(413, "LIMIT_SIZE", f"a request has at most {limits.RPC_REQUEST_BYTES:,} bytes; send more to /blobs"),
    Problem(415, "MEDIA_TYPE", COMPRESSED, fields={"Accept-Encoding": "identity"}),
)


class ByteQuota:
    """Bounds the bytes of the answers to one body. After one that did not fit, the others are not computed."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._asked = len(body.data)
        self._answered = 0
        self._refusal: SkillwireError | None = None

    def check(self) -> None:
        """Raise what :meth:`take` raised before, so that no work is done for an answer that would not fit."""
        if self._refusal is not None:
            raise self._refusal

    def take(self, answer: bytes) -> bytes:
        """Count and return ``answer``. Raises DecodeError (``LIMIT_SIZE``), FetchError (``ENDPOINT_UNREACHABLE``)."""
        self.check()
        try:
            self.reserve(len(answer))
        except SkillwireError as refusal:
            self._refusal = refusal
            raise
        return answer

    def reserve(self, size: int) -> None:
        """Count ``size`` bytes, negative to give some back. Raises as :meth:`take`; then nothing is counted."""
        answered = self._answered + size
        if size > 0 and answered > limits.RPC_ANSWER_BYTES:
            message = f"the answers to what was asked for together have more than {limits.RPC_ANSWER_BYTES:,} bytes"
            raise DecodeError("LIMIT_SIZE", message, fix="Ask for this alone.")
        try:
            self._body.count(self._asked + answered)
        except ProblemError:
            message = "too much is being answered at once; ask again"
            raise FetchError("ENDPOINT_UNREACHABLE", message, details={"retry_after": 1}) from None
        self._answered = answered


@contextmanager
def hold_bytes(bodies: Bodies, scope: Scope) -> Iterator[ByteQuota]:
    """Give a quota for the answer to a request that is itself counted elsewhere."""
    body = Body(bodies, network_of(client_address(scope)))
    try:
        yield ByteQuota(body)
    finally:
        body.release()


class RpcCaller(NamedTuple):
    """The caller: owner of its runs and blobs, and its skills.

    ``is_stray_page``: a page of an origin that is not allowed, without credentials.
    """

    owner: str
    skills: SkillsRpc
    is_stray_page: bool = False


Method = Callable[[RpcCaller, Any], Awaitable[bytes]]
#: The methods whose end may be far: who goes away is not waited for.
LASTING_METHODS: Final = frozenset({"execute_skill", "run_code"})
#: The methods that execute or keep something, or give what was kept: not for every page that a browser shows.
_GUARDED: Final = LASTING_METHODS | {"create_blob", "read_blob"}

#: Threads that read files at one time. They compute more than they wait, and more of them would hold up the event loop.
_READERS: Final = 2


#: So many bytes are read faster than a thread is woken.
_FEW: Final = 64 * limits.KIB
_INTERNAL: Final = SkillwireError("INTERNAL", "the server failed; its log says how")

#: What came: one request, several, or nothing that is one.
Request = Call | Batch | Refused


class RpcDispatcher:
    """Answers requests by calling the methods of its table."""

    def __init__(self, runs: Runs) -> None:
        self._turn = asyncio.Lock()
        self._log = structlog.get_logger("skillwire.rpc")
        reading = asyncio.Semaphore(_READERS)

        def read(method: Callable[[SkillsRpc, Any], bytes]) -> Method:
            async def call(caller: RpcCaller, params: Any) -> bytes:
                async with reading:
                    return await asyncio.to_thread(method, caller.skills, params)

            return call

        async def list_skills(caller: RpcCaller, params: Any) -> bytes:
            return caller.skills.list_skills(params)

        async def load_guide(caller: RpcCaller, params: Any) -> bytes:
            return await asyncio.to_thread(caller.skills.load_skills_protocol_guide, params)

        async def execute_skill(caller: RpcCaller, params: Any) -> bytes:
            return encode_run(await runs.execute_skill(caller.owner, caller.skills, params))

        async def run_code(caller: RpcCaller, params: Any) -> bytes:
            return encode_run(await runs.run_code(caller.owner, caller.skills, params))

        async def create_blob(caller: RpcCaller, params: Any) -> bytes:
            return msgspec.json.encode(await runs.blobs.create(caller.owner, params))

        async def read_blob(caller: RpcCaller, params: Any) -> bytes:
            return encode_blob(await runs.blobs.read(caller.owner, params))

        self._table: Final[dict[str, Method]] = {
            "list_skills": list_skills,
            "describe_skill": read(SkillsRpc.describe_skill),
            "read_skill_file": read(SkillsRpc.read_skill_file),
            "execute_skill": execute_skill,
            "run_code": run_code,
            "create_blob": create_blob,
            "read_blob": read_blob,
            "load_skills_protocol_guide": load_guide,
        }

    async def decode(self, data: bytes) -> Request:
        """Return what ``data`` asks for; what is large in a thread, one at a time: it takes 25 times the room."""
        if len(data) <= _FEW:
            return decode(data)
        async with self._turn:
            return await asyncio.to_thread(decode, data)

    async def answer(self, request: Request, caller: RpcCaller, quota: ByteQuota) -> bytes | None:
        """Return the answer, as JSON; None when there is none, since nothing but notifications came."""
        if not isinstance(request, Batch):
            return await self._answer(request, caller, quota)
        answers: list[bytes | None] = [None] * len(request.items)
        left = iter(enumerate(request.items))

        async def work() -> None:
            for number, item in left:
                answers[number] = await self._answer(item, caller, quota)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(limits.RPC_BATCH_AT_ONCE, len(answers))):
                group.create_task(work())
        return join_batch(answers)

    async def _answer(self, item: Call | Refused, caller: RpcCaller, quota: ByteQuota) -> bytes | None:
        if isinstance(item, Refused):
            return encode_error(item.request_id, item.error)
        try:
            if not item.is_notification:
                quota.check()
            result = await self._call(item, caller)
            return None if item.is_notification else quota.take(encode_result(item.request_id, result))
        except SkillwireError as error:
            answer = error
            if isinstance(error, StorageError):
                self._log.error("a call failed", method=item.method, error=one_line(error))
                answer = StorageError(error.code, "the server cannot keep or read what this needs at the moment")
        except Exception:  # noqa: BLE001  # whatever it is, the caller gets an error, and the log has the reason
            self._log.exception("a call failed", method=item.method)
            answer = _INTERNAL
        return None if item.is_notification else encode_error(item.request_id, answer)

    async def _call(self, call: Call, caller: RpcCaller) -> bytes:
        """Return the result of a call, as JSON. Raises SkillwireError: ``RPC_METHOD``, ``RPC_PARAMS``, the method's."""
        if caller.is_stray_page and call.method in _GUARDED:
            message = f"{call.method} is not for pages of this origin without credentials"
            raise TrustError(PAGE_REFUSED, message)
        params = decode_params(call.params, params_type(call.method))
        return await self._table[call.method](caller, params)


def calls_of(request: Request) -> Sequence[Call]:
    """Return the calls in what came."""
    items = request.items if isinstance(request, Batch) else (request,)
    return [item for item in items if isinstance(item, Call)]


def is_lasting(request: Request) -> bool:
    """Whether the answer may take long."""
    return any(call.method in LASTING_METHODS for call in calls_of(request))


#: Audiences whose skills are kept: everyone, and as many as the server keeps beside.
_CACHED_LISTS: Final = 33


class SkillListCache:
    """The skills that each view may list, describe and read; used by one event loop."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._revision: Revision | None = None
        self._whole: asyncio.Future[SkillIndex] | None = None
        self._lists: SharedWork[IndexCache, SkillsRpc] = SharedWork(_CACHED_LISTS)

    async def of(self, audience: AccessView, revision: Revision) -> SkillsRpc:
        """Return the skills of ``audience``, a view of ``revision``."""
        if revision is not self._revision or self._whole is None or has_failed(self._whole):
            self._revision = revision
            self._whole = asyncio.ensure_future(asyncio.to_thread(SkillIndex, revision.everything.skills))
            self._lists.clear()
        return await self._lists.get(audience.indexes, partial(self._make, audience, self._whole))

    async def _make(self, audience: AccessView, writing: asyncio.Future[SkillIndex]) -> SkillsRpc:
        whole = await asyncio.shield(writing)
        index = await asyncio.to_thread(SkillIndex, audience.visible.skills, whole)
        return SkillsRpc(index, audience.usable.skills, self._blobs.read)
