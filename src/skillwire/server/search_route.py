"""The route of ``/api/search``: the search answers of the current revision over ASGI, or of the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.server.methods import READ, answer_other_method
from skillwire.server.problems import NOT_READY, Problem
from skillwire.server.site import site_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from skillwire.server.revision import Revision


class SearchRoute:
    """Answers searches of what ``current`` returns, or ``first``, which waits so many seconds for a revision."""

    def __init__(
        self, current: Callable[[], Revision | None], first: Callable[[float], Awaitable[Revision | None]]
    ) -> None:
        self._current = current
        self._first = first

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in READ:
            await answer_other_method(scope["method"], send)
            return
        revision = self._current() or await self._first(limits.SERVER_LOADING_SECONDS)
        if revision is None:
            await NOT_READY.send(send, head=scope["method"] == "HEAD")
        else:
            await self._search(revision, scope, send)

    async def _search(self, revision: Revision, scope: Scope, send: Send) -> None:
        answers = revision.answers
        try:
            answer = await answers.answer(scope["query_string"], f"{site_of(scope, answers.base_url)}/")
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
