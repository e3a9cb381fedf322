"""Lists whose head is known: answered without a task, a scope, and messages for an application.

Agents list skills again and again with the same head, byte for byte; the body alone is another. What a head means does
not change while the revision stays. So the head of a request that listed skills for nobody in particular is kept with
what there was to list, and the next time only the body is read, as strictly as ever. A page is a part of a text
that is written already, so the answer is there at once.

Nothing is refused here: what is not a list, or not in order, takes the ordinary way, on which the application says so.

Trust: heads and bodies are a stranger's. The heads' number and size are bounded, and the oldest goes first; bodies are
small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.protocols.skills_rpc.json_rpc import Call, Single, decode, decode_params, encode_result
from skillwire.protocols.skills_rpc.messages import ListSkills
from skillwire.server.headers import join_fields
from skillwire.server.invocation.known_calls import HEAD
from skillwire.server.prepared import Ready
from skillwire.server.remembered import Remembered, RememberedHeads

if TYPE_CHECKING:
    from starlette.types import Scope

    from skillwire.protocols.skills_rpc.server import SkillsRpc
    from skillwire.server.headers import Fields
    from skillwire.server.invocation.known_calls import Head
    from skillwire.server.rpc.answering import Request

_POST: Final = b"POST "
_END_OF_HEAD: Final = b"\r\n\r\n"
_LIST: Final = "list_skills"


class _Known(NamedTuple):
    """What a head means: a request of this path with so many bytes of body, for the lists of ``skills``."""

    path: str
    length: int
    skills: SkillsRpc


class KnownLists:
    """Answers lists by their heads.

    Args:
        fields: of every answer, but its length.
    """

    def __init__(self, fields: Fields) -> None:
        self._lines = b"HTTP/1.1 200 OK\r\n" + join_fields(fields)
        self._heads: RememberedHeads[_Known] = RememberedHeads()

    def learn(self, scope: Scope, request: Request, skills: SkillsRpc, revision: int) -> None:
        """Keep the head of a request that nobody in particular made, if it came alone and listed skills."""
        head: Head | None = scope.get("extensions", {}).get(HEAD, {}).get("head")
        if head is not None and head.length <= limits.SERVER_REMEMBERED_BODY_BYTES and _listing(request) is not None:
            self._heads.keep(head.written, revision, _Known(scope["path"], head.length, skills))

    def answer(self, request: bytes, revision: int) -> Remembered | None:
        """Return the answer to a request that came alone; None when it is not known, not whole, or not a list."""
        if not request.startswith(_POST):
            return None
        end = request.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        known = self._heads.find(request[:end], revision)
        if known is None or len(request) != end + known.length:
            return None
        call = _listing(decode(request[end:]))
        if call is None:
            return None
        try:
            page = known.skills.list_skills(decode_params(call.params, ListSkills))
        except SkillwireError:
            return None
        body = encode_result(call.request_id, page)
        ready = Ready(200, b"%scontent-length: %d\r\n" % (self._lines, len(body)), body)
        return Remembered(ready, "POST", known.path)


def _listing(request: Request) -> Call | None:
    """Return the one call that a request is, if it wants a list and an answer."""
    call = request.item if isinstance(request, Single) else None
    return call if isinstance(call, Call) and call.method == _LIST and not call.is_notification else None
