"""The routes of calls as OpenAPI describes them: calling a skill, following its execution, taking it back.

Which inputs a skill takes, and under which paths a publisher's own descriptor has it called, is said by descriptors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_sharing.paths import EXECUTIONS
from skillwire.server.openapi_operations import (
    asked_with,
    describe,
    describe_answer,
    describe_preflight,
    every_answer,
    in_path,
)
from skillwire.server.openapi_parts import JSON, reference

if TYPE_CHECKING:
    from skillwire.server.openapi_operations import Answers
    from skillwire.server.openapi_parts import Node

_TAG: Final = "Executions"
_FIELDS: Final = ("ETag", "Cache-Control", "Vary", "Pause", "Preference-Applied")
_REFUSED: Final = {"404": "SkillNotFound", "503": "NotRunning"}


def executions() -> Node:
    """Return the description of each path."""
    one = f"{EXECUTIONS}/{{execution}}"
    return {f"/skills/{{skill}}{EXECUTIONS}": _call(), one: _status(), f"{one}/result": _result()}


def _execution(meaning: str, *more: str, stream: bool = False) -> Node:
    content = {JSON: reference("schemas", "InvocationResponse")}
    events: Node = {"text/event-stream": {"type": "string"}} if stream else {}
    return describe_answer(meaning, {**content, **events}, *_FIELDS, *more)


def _call() -> Node:
    parameters = ("skill", "Prefer", "Idempotency-Key", "Callback-Url")
    told = every_answer(
        {
            **_REFUSED,
            "200": _execution("It has ended already.", "Location", "Webhook-Secret"),
            "202": _execution("It is accepted, and on the disk.", "Location", "Webhook-Secret"),
            "403": "StrayPage",
            "413": "TooLarge",
            "415": "NoJson",
            "422": "Invalid",
            "429": "TooManyExecutions",
        }
    )
    meaning = "Call a skill; with PUT, GET or DELETE where its own descriptor says so"
    body = {"required": True, "content": {JSON: {"schema": reference("schemas", "InvocationRequest")}}}
    return {
        "parameters": in_path(parameters),
        "post": {"tags": [_TAG], "summary": meaning, **asked_with(parameters), "requestBody": body, "responses": told},
        "options": describe_preflight(_TAG, meaning, told),
    }


def _status() -> Node:
    meaning = "How far an execution is"
    answers: Answers = {**_REFUSED, "200": _execution(f"{meaning}, or a stream of it.", stream=True)}
    described = describe(_TAG, meaning, {**answers, "304": "NotModified"}, ("execution", "Prefer", "If-None-Match"))
    cancelled = every_answer({**_REFUSED, "403": "StrayPage", "200": _execution("As it ended, now or before.")})
    described["delete"] = {"tags": [_TAG], "summary": "Cancel an execution", "responses": cancelled}
    return described


def _result() -> Node:
    answers: Answers = {
        **_REFUSED,
        "200": _execution("It has ended."),
        "202": _execution("It has not ended yet."),
        "304": "NotModified",
        "410": "Gone",
    }
    meaning = "What came of an execution"
    return describe(_TAG, meaning, answers, ("execution", "Prefer", "If-None-Match"))
