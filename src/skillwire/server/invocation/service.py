"""Executions as one part of the server: what is asked about them, and the tasks that run, watch and tell of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from skillwire import limits
from skillwire.errors import SkillwireError, TrustError
from skillwire.protocols.skill_sharing.server import not_found
from skillwire.protocols.skills_rpc.errors import FIXES
from skillwire.server.authentication import says_who
from skillwire.server.headers import read_fields
from skillwire.server.invocation.bodies import Bodies
from skillwire.server.invocation.endpoints import Endpoints, usual_meaning
from skillwire.server.invocation.errors import problem_of
from skillwire.server.invocation.requests import asked_for, read_asked, read_request, shown_credentials
from skillwire.server.invocation.route import Request
from skillwire.server.origins import PAGE_REFUSED
from skillwire.server.rpc.room import REQUESTS
from skillwire.server.site import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from starlette.types import Receive, Scope, Send

    from skillwire.model.access import Principal
    from skillwire.model.skill import Skill
    from skillwire.server.audience import Audience
    from skillwire.server.authentication import Asker, Refusal
    from skillwire.server.invocation.bodies import Body
    from skillwire.server.invocation.desk import Desk
    from skillwire.server.invocation.endpoints import Meant
    from skillwire.server.invocation.known_calls import KnownCalls
    from skillwire.server.invocation.offers import Offers
    from skillwire.server.invocation.route import InvocationRoute
    from skillwire.server.origins import Origins
    from skillwire.server.revision import Revision
    from skillwire.server.runs import Runs

_SKILLS_KEPT: Final = 1_000
#: Seconds between two looks whether another process has made the ledger.
_LEDGER_LOOK: Final = 2.0


class Call(NamedTuple):
    """Who asks, what they may know of and use in a revision of this number, and the body of the request."""

    asker: Asker
    audience: Audience
    revision: int
    body: Body


class Background(Protocol):
    """What works on executions beside requests."""

    async def work(self) -> None:
        """Work until it is stopped."""

    def look(self) -> None:
        """See what is to be done, or to be ended: the ledger was changed by somebody else."""

    async def stop(self, seconds: float) -> None:
        """Begin nothing more; wait ``seconds`` for what is under way, then end it."""


class Executions:
    """Executions, as the application sees them.

    Args:
        desk: where they are.
        route: answers requests.
        known: accepts calls by their heads.
        origins: of pages that may call and cancel without a credential.
        background: what works on them beside requests: runs them, and tells callers of their end.
        offers: of what is published.
        locked: returns the answer to who may know of a skill and not use it.
        has_ledger: whether there is anything to open. Called in a thread.
        base_url: of the site; as requests say it when empty.
        runs: executes by name, and waits for the end.
    """

    def __init__(
        self,
        desk: Desk,
        route: InvocationRoute,
        known: KnownCalls,
        *,
        origins: Origins,
        background: Sequence[Background],
        offers: Offers,
        locked: Callable[[Principal | None, str | None, Scope], Refusal],
        has_ledger: Callable[[], bool],
        base_url: str,
        runs: Runs,
    ) -> None:
        self.desk = desk
        self.runs = runs
        self._route = route
        self.known = known
        self._origins = origins
        self._background = background
        self._offers = offers
        self._locked = locked
        self._has_ledger = has_ledger
        self._base_url = base_url
        self.bodies = Bodies()
        self.answers = Bodies(REQUESTS)
        self._awaiting: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._skills: tuple[int, dict[str, Skill]] = (0, {})
        self._endpoints: tuple[int, Endpoints] | None = None
        self._log = structlog.get_logger("skillwire.executions")

    async def resume(self) -> None:
        """Begin to run what other processes accepted, as soon as there may be something."""
        if await asyncio.to_thread(self._has_ledger):
            self.start()
        else:
            self._awaiting = self._begin(self._await_ledger())

    async def _await_ledger(self) -> None:
        while not await asyncio.to_thread(self._has_ledger):  # noqa: ASYNC110  # another process may make it
            await asyncio.sleep(_LEDGER_LOOK)
        self.start()

    def start(self) -> None:
        """Begin to run what waits, unless that has begun."""
        if not self._tasks:
            self.desk.writer.watch(self._look)
            self._tasks = [self._begin(one.work()) for one in self._background]

    def hang_up(self) -> None:
        """Answer whoever waits: the server stops."""
        self.desk.changes.close()

    async def stop(self) -> None:
        """End what runs, after a while; return when all of it is on the disk."""
        if self._awaiting is not None:
            self._awaiting.cancel()
            await asyncio.gather(self._awaiting, return_exceptions=True)
        if not self._tasks:
            return
        await asyncio.gather(*(one.stop(limits.SERVER_SHUTDOWN_SECONDS) for one in self._background))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.to_thread(self.desk.writer.close)

    def _skill(self, name: str, call: Call) -> Skill | None:
        """Return the skill of this name if its caller may use it; who is called often is kept unpacked."""
        if name not in call.audience.usable.skills:
            return None
        if self._skills[0] != call.revision or len(self._skills[1]) > _SKILLS_KEPT:
            self._skills = (call.revision, {})
        kept = self._skills[1]
        if name not in kept:
            kept[name] = call.audience.usable.skills[name]
        return kept[name]

    def _look(self) -> None:
        self.desk.changes.tell_all()
        for one in self._background:
            one.look()

    def _begin(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("what runs executions has ended", exc_info=error)

    def meaning(self, path: str) -> Meant | None:
        """Return what a path of ours asks about, or None."""
        return usual_meaning(path)

    async def described(self, path: str, scope: Scope, revision: Revision) -> Meant | None:
        """Return what a path asks about that a publisher's own descriptor names, or None."""
        if self._endpoints is None or self._endpoints[0] != revision.number:
            skills = revision.everything.skills
            self._endpoints = (revision.number, await asyncio.to_thread(Endpoints, skills, self._offers))
        return self._endpoints[1].meaning(f"{site_of(scope, self._base_url)}{path}")

    @staticmethod
    def identified(scope: Scope, body: bytes) -> Scope:
        """Return the scope by which the caller is recognised: with what it shows in the body, if only there."""
        if b'"credentials"' not in body or says_who(scope["headers"]):
            return scope
        with suppress(SkillwireError):  # what is wrong with the body is said when it is read
            shown = shown_credentials(read_request(body, ""))
            return {**scope, "headers": [*scope["headers"], *shown]}
        return scope

    def _check_page(self, meant: Meant, call: Call, scope: Scope) -> None:
        """Look whose page wants something done; what is only followed is open to every page.

        Raises:
            TrustError: ``PAGE_REFUSED``.
        """
        acting = meant.method.value if meant.purpose == "invoke" else "DELETE"
        if scope["method"] != acting or call.asker.principal is not None or self._origins.let_in(scope):
            return
        page = read_fields(scope["headers"], b"origin").get(b"origin", "another site")
        message = f"A page of {ascii(page)[1:101]} may not have this done unless it says who it is"
        raise TrustError(PAGE_REFUSED, message, details={"fix": FIXES[PAGE_REFUSED]})

    async def answer(self, meant: Meant, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for an execution.

        Raises:
            Refusal: the caller may know of the skill and not use it (401, 403).
        """
        try:
            asker, audience = call.asker, call.audience
            self._check_page(meant, call, scope)
            request = Request(scope, asker.principal, call.body, read_asked(scope["headers"]))
            if meant.purpose != "invoke":
                await self._route.follow(meant, request, receive, send)
                return
            skill = self._skill(meant.skill, call)
            if skill is None and meant.skill in audience.visible.skills and request.method != "OPTIONS":
                raise self._locked(asker.principal, meant.skill, scope)
            if skill is None:
                raise not_found(asked_for(meant, call.body.data))
            self.start()
            offer = await self._route.invoke(meant, skill, request, send)
            if offer is not None:
                self.known.learn(request, offer, call.revision)
        except SkillwireError as error:
            if error.code == "AUTH_REQUIRED":
                raise self._locked(call.asker.principal, meant.skill, scope) from error
            await problem_of(error).send(send, head=scope["method"] == "HEAD")
