"""The route of ``/api/search``: the search answers of the current revision over ASGI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import UsageError
from skillwire.server.headers import read_fields
from skillwire.server.problems import NOT_READY, Problem, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from skillwire.server.revision import Revision

_READ: Final = ("GET", "HEAD")


class SearchRoute:
    """Answers searches of what ``current`` returns."""

    def __init__(self, current: Callable[[], Revision | None]) -> None:
        self._current = current

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request."""
        head = scope["method"] == "HEAD"
        revision = self._current()
        if scope["method"] not in _READ:
            await method_not_allowed(scope["method"], ", ".join(_READ)).send(send)
        elif revision is None:
            await NOT_READY.send(send, head=head)
        else:
            await self._search(revision, scope, send)

    async def _search(self, revision: Revision, scope: Scope, send: Send) -> None:
        answers = revision.answers
        host = read_fields(scope["headers"], b"host").get(b"host", "")
        site = answers.address(scope["scheme"], host, scope.get("app_root_path", scope.get("root_path", "")))
        try:
            answer = await answers.answer(scope["query_string"], site)
        except UsageError as error:
            await search_problem(error).send(send, head=scope["method"] == "HEAD")
            return
        ready = answer.ready(scope["method"].encode("ascii"), scope["headers"])
        await send(
            {"type": "http.response.start", "status": ready.status, "headers": answer.header_fields(ready.status)}
        )
        await send({"type": "http.response.body", "body": ready.body})


def search_problem(error: UsageError) -> Problem:
    """Return the answer to a search that cannot be made."""
    diagnostics = error.diagnostics()
    return Problem(400, error.code, error.message, {"fix": diagnostics.fix})
