"""The methods of the Skills Protocol, and what each of them calls.

:data:`~skillwire.protocols.skills_rpc.messages.METHODS` says what they take; the table here, what they do. What reads
files does so in a thread; what is executed is followed to its end. Spec: SKP; specs §4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import TrustError
from skillwire.protocols.skills_rpc.json_rpc import decode_params, params_type
from skillwire.protocols.skills_rpc.results import encode_blob, encode_created, encode_run
from skillwire.server.origins import PAGE_REFUSED

if TYPE_CHECKING:
    from skillwire.protocols.skills_rpc.json_rpc import Call
    from skillwire.protocols.skills_rpc.server import SkillsRpc
    from skillwire.server.runs import Runs


class Caller(NamedTuple):
    """Who calls: whom runs and blobs belong to, what it may use, and that as this protocol tells it.

    ``is_stray_page`` when a page calls that :mod:`skillwire.server.origins` lets not in, and shows no credential.
    """

    owner: str
    skills: SkillsRpc
    is_stray_page: bool = False


Method = Callable[[Caller, Any], Awaitable[bytes]]
#: The methods whose end may be far: who goes away is not waited for.
LASTING: Final = frozenset({"execute_skill", "run_code"})
#: The methods that execute or keep something, or give what was kept: not for every page that a browser shows.
_GUARDED: Final = LASTING | {"create_blob", "read_blob"}

#: Threads that read files at one time. They compute more than they wait, and more of them would hold up the event loop.
_READERS: Final = 2


class Methods:
    """Calls what a method names.

    Args:
        runs: executes, and keeps blobs.
    """

    def __init__(self, runs: Runs) -> None:
        async def list_skills(caller: Caller, params: Any) -> bytes:
            return caller.skills.list_skills(params)

        reading = asyncio.Semaphore(_READERS)

        async def describe_skill(caller: Caller, params: Any) -> bytes:
            async with reading:
                return await asyncio.to_thread(caller.skills.describe_skill, params)

        async def read_skill_file(caller: Caller, params: Any) -> bytes:
            async with reading:
                return await asyncio.to_thread(caller.skills.read_skill_file, params)

        async def load_guide(caller: Caller, params: Any) -> bytes:
            return await asyncio.to_thread(caller.skills.load_skills_protocol_guide, params)

        async def execute_skill(caller: Caller, params: Any) -> bytes:
            return encode_run(await runs.execute_skill(caller.owner, caller.skills, params))

        async def run_code(caller: Caller, params: Any) -> bytes:
            return encode_run(await runs.run_code(caller.owner, caller.skills, params))

        async def create_blob(caller: Caller, params: Any) -> bytes:
            return encode_created(await runs.blobs.create(caller.owner, params))

        async def read_blob(caller: Caller, params: Any) -> bytes:
            return encode_blob(await runs.blobs.read(caller.owner, params))

        self.table: Final[dict[str, Method]] = {
            "list_skills": list_skills,
            "describe_skill": describe_skill,
            "read_skill_file": read_skill_file,
            "execute_skill": execute_skill,
            "run_code": run_code,
            "create_blob": create_blob,
            "read_blob": read_blob,
            "load_skills_protocol_guide": load_guide,
        }

    async def call(self, call: Call, caller: Caller) -> bytes:
        """Return the result of a call, as JSON.

        Raises:
            SkillwireError: it is refused, or failed; ``RPC_METHOD``, ``RPC_PARAMS`` and what the method raises;
                ``PAGE_REFUSED``.
        """
        if caller.is_stray_page and call.method in _GUARDED:
            message = f"{call.method} is not for pages of this origin unless they say who they are"
            raise TrustError(PAGE_REFUSED, message)
        params = decode_params(call.params, params_type(call.method))
        return await self.table[call.method](caller, params)
