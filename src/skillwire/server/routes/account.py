"""The rows of the pages of accounts, which a registry has; they load with the first request for one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire.server.problems import READ
from skillwire.server.routing import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.server.account_pages import AccountPages
    from skillwire.server.components import RegistryComponents, Services
    from skillwire.server.context import RequestContext

_POST: Final = ("POST",)
#: Path, the method of :class:`~skillwire.server.account_pages.AccountPages` that answers, and the HTTP methods.
_ROWS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("/account", "show", READ),
    ("/account/tokens", "make_token", _POST),
    ("/account/tokens/{token}/revoke", "revoke", _POST),
    ("/account/device", "device", (*READ, *_POST)),
    ("/account/setup", "set_up", (*READ, *_POST)),
    ("/account/sign-in", "sign_in", READ),
    ("/account/sign-in/answer", "finish_sign_in", READ),
    ("/account/new", "make_account", (*READ, *_POST)),
)


class AccountConsole:
    """Answers browsers about accounts, with the sessions of the console."""

    def __init__(self, services: Services, parts: RegistryComponents) -> None:
        self._services = services
        self._parts = parts
        self._pages: AccountPages | None = None

    def routes(self) -> Sequence[Route]:
        """Return the rows."""

        def row(path: str, page: str, methods: Sequence[str]) -> Route:
            async def answer(context: RequestContext) -> None:
                if self._pages is None:
                    self._pages = await asyncio.to_thread(self._make_pages)
                await self._pages.answer(page, context)

            return Route(path, answer, "page", methods=methods, answers_preflight=False, loads=False)

        return [row(*one) for one in _ROWS]

    def _make_pages(self) -> AccountPages:
        from skillwire.server.account_pages import AccountPages  # noqa: PLC0415  # templates, as in the console

        services = self._services
        return AccountPages(
            self._parts,
            services.authentication,
            services.console.sessions,
            base_url=services.base_url,
            has_lan=services.lan is not None,
        )
