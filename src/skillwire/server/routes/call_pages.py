"""The page that calls a skill: its form, the execution of a call, or the reason why the caller may not call it.

The caller's view, grants, limits and the rule for pages apply as to any other call. The caller is the person of the
session, else an anonymous client; a client that knows the ID of an anonymous execution may follow it. The form works
without a script: the page waits a moment for the result, and shows the execution in its state then.

Trust: everything in a request is untrusted; a form is accepted as :mod:`skillwire.server.console_request` accepts it.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from skillwire.errors import SkillwireError
from skillwire.model.execution import Execution, ExecutionStatus
from skillwire.protocols.skill_sharing.messages import Caller, InvocationRequest
from skillwire.protocols.skill_sharing.server import descriptor_of
from skillwire.server.console_request import ANYONE, RefusedError, read_console_request
from skillwire.server.http import PAGE_REFUSED
from skillwire.server.problems import READ, ProblemError
from skillwire.server.responses import Page, Redirect
from skillwire.server.routes.executions import may_follow
from skillwire.trust.guarded_json import load_json
from skillwire.web.environment import notice_page
from skillwire.web.executions_page import ShownExecution, execution_page
from skillwire.web.forms import (
    ShownCall,
    call_snippets,
    example_inputs,
    form_input,
    form_of_inputs,
    general_errors,
    other_endpoint,
    read_inputs,
    read_typed,
    typed_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.types import ASGIApp

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.executions.tasks import Field
    from skillwire.model.access import Principal
    from skillwire.model.skill import Skill
    from skillwire.server.components import Components
    from skillwire.server.console_request import Sessions
    from skillwire.server.routing import RequestContext
    from skillwire.web.environment import Frame
    from skillwire.web.public_pages import CallPart

_OTHER: Final = "This version is not called here. The current version of the skill of this name is"
_TAKEN: Final = "Another skill has this name here, so this one is not called."
_NEEDS_LOGIN: Final = frozenset({"AUTH_REQUIRED", PAGE_REFUSED})
_REFUSALS: Final = {
    "AUTH_REQUIRED": "Calls of this skill need a key.",
    PAGE_REFUSED: "Visitors without a key do not call skills on this page.",
    "ENDPOINT_UNREACHABLE": "The operator has not granted that this skill runs here.",
}


class CallPages:
    """Answers with the call part of a skill's page; ``sessions`` are the console's."""

    def __init__(self, parts: Components, sessions: Sessions) -> None:
        self._parts = parts
        self._sessions = sessions
        settings = parts.configuration
        self._has_mcp = settings.mcp.serve and bool(settings.runs.execute_skill) and find_spec("mcp") is not None

    async def answer(
        self, context: RequestContext, skill: Skill, page: str, render: Callable[[CallPart, Frame], str]
    ) -> ASGIApp:
        """Answer for a skill that the caller may see, whose page is ``page``."""
        request = await read_console_request(context, self._sessions, self._parts.base_url)
        principal = context.principal or (request.session.principal if request.session else None)
        if principal is not None and self._parts.registry is not None:
            principal = await self._parts.registry.authorize(principal)
        descriptor = await asyncio.to_thread(descriptor_of, skill, context.site, self._parts.catalog.blobs.read)
        fields, status = await asyncio.to_thread(form_of_inputs, descriptor.inputs), HTTPStatus.OK
        called, shown = None, ShownCall(refusal=other_endpoint(descriptor))
        if skill.action is not None:
            called, shown = await self._check(context, skill, principal)
        if called is None and context.method not in READ:
            status = HTTPStatus.FORBIDDEN
        elif called is not None and context.method not in READ:
            try:
                form = _Form(called, fields, read_typed(fields, await request.form()))
                begun = await self._begin(context, form, principal)
            except RefusedError as error:
                html = await asyncio.to_thread(notice_page, error.notice, request.frame)
                return Page(error.status, html, is_private=True)
            if isinstance(begun, Execution):
                where = f"/{page}/call?execution={begun.execution_id}#result"
                return Redirect(where, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
            shown, status = begun, HTTPStatus.UNPROCESSABLE_ENTITY
        elif called is not None:
            execution = await self._execution(request.parameter("execution"), skill, principal)
            inputs: Any = example_inputs(one for one in descriptor.inputs if not one.has_default)
            if execution is not None:
                inputs = load_json(execution.inputs, max_bytes=len(execution.inputs))
                shown = await self._with_run(shown, execution, request.frame)
            typed = typed_values(fields, inputs)
            shown = shown._replace(form=[form_input(index, one, typed, ()) for index, one in enumerate(fields)])
        has_mcp = self._has_mcp and bool(skill.action)

        def make() -> str:
            is_taken = shown.refusal == _TAKEN  # the calls would be those of the other skill
            snippets = [] if is_taken else call_snippets(skill.name, descriptor, context.site, has_mcp=has_mcp)
            return render((shown, snippets, descriptor.inputs), request.frame)

        html = await asyncio.to_thread(make)
        return Page(status, html, is_private=True)

    async def _check(
        self, context: RequestContext, skill: Skill, principal: Principal | None
    ) -> tuple[CallableSkill | None, ShownCall]:
        """Return the callable skill, or None with the reason why the caller may not call it."""
        revision = await context.find_revision(0)
        view = await self._parts.views.of(principal, revision) if revision else None
        known = view.usable.skills.get(skill.name) if view else None
        if known is not None and known.publisher != skill.publisher:
            return None, ShownCall(refusal=_TAKEN)
        if known is None or known.artifact != skill.artifact:
            return None, ShownCall(refusal=f"{_OTHER} {known.version}." if known else "It is not called here.")
        sent = [field for field in context.scope["headers"] if field[0] != b"origin"]
        scope = {**context.scope, "headers": [*sent, (b"origin", context.site.encode())]}
        try:
            return await self._parts.executions.check(skill, principal, scope), ShownCall()
        except (SkillwireError, ProblemError) as error:
            code = error.code if isinstance(error, SkillwireError) else error.problem.code
            return None, ShownCall(
                refusal=_REFUSALS.get(code, "It is not called here."), needs_login=code in _NEEDS_LOGIN
            )

    async def _begin(self, context: RequestContext, form: _Form, principal: Principal | None) -> Execution | ShownCall:
        """Return the execution of an accepted call; else the form with the reason."""
        inputs, errors = await asyncio.to_thread(read_inputs, form.fields, form.typed, form.called.inputs)
        shown = form.shown(errors)
        if errors:
            return shown
        caller = Caller(id=principal.name if principal else "anonymous", type="user")
        invocation = InvocationRequest(caller=caller, skill_id=form.called.skill_id, inputs=inputs)
        try:
            if context.principal is None and principal is not None:  # a session counts as its key does
                self._parts.authentication.count_further(principal, context.scope, 1)
            return await self._parts.executions.begin(form.called.skill, invocation, principal, context.scope)
        except ProblemError as error:
            return shown._replace(problem=error.problem.message)
        except SkillwireError as error:
            return shown._replace(problem=error.message)

    async def _execution(self, execution_id: str, skill: Skill, principal: Principal | None) -> Execution | None:
        ledger = self._parts.executions.service.ledger
        execution = await ledger.find(execution_id) if execution_id else None
        is_shown = execution is not None and execution.skill == skill.name and may_follow(execution, principal)
        return execution if is_shown else None

    async def _with_run(self, shown: ShownCall, execution: Execution, frame: Frame) -> ShownCall:
        output = None
        if execution.status is ExecutionStatus.COMPLETED:
            output = await self._parts.executions.service.ledger.output(execution)
        frame = frame._replace(person=frame.person or ANYONE)
        run = ShownExecution(execution, output, execution.caller_id, time.time())
        html = await asyncio.to_thread(execution_page, run, frame, part=True)
        return shown._replace(run=Markup(html), live=f"executions/{execution.execution_id}/live")  # noqa: S704  # ours


class _Form(NamedTuple):
    """A form as sent."""

    called: CallableSkill
    fields: Sequence[Field]
    typed: Mapping[str, str]

    def shown(self, errors: Sequence[Mapping[str, object]]) -> ShownCall:
        """Return the form with its errors, each at its field or above."""
        rows = [form_input(index, one, self.typed, errors) for index, one in enumerate(self.fields)]
        return ShownCall(rows, general=general_errors(self.fields, errors))
