"""What commands print with ``--json`` that call skills, and do tasks. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Final, get_args

from skillwire.cli.document_lan import LAN_SKILL
from skillwire.cli.document_parts import (
    DRY_RUN,
    Schema,
    anything,
    decimal,
    fields,
    flag,
    may_lack,
    number,
    or_null,
    some,
    text,
    texts,
)
from skillwire.executions.task_form import FieldKind

_EXECUTION: Final = {
    "execution_id": or_null(text("What the provider calls it"), "when the output came at once, without one"),
    "skill_id": text("The id of the skill in Skill Sharing"),
    "reference": text("What to type to mean the skill; empty when only the URL of the status was given"),
    "status": text("How far it is", "accepted", "running", "completed", "failed", "timeout"),
    "cancelled": flag("Whether it was taken back; its status is failed then"),
    "output": anything("What the skill gave; null when it has not completed, or gave nothing"),
    "encoding": text("How output holds it: as it is, or its bytes", "json", "base64"),
    "content_type": text("The media type of an output that came at once"),
    "error": or_null(
        fields(
            "Why it did not complete, in the provider's words",
            code=text("The provider's code"),
            message=text("The provider's message"),
            details=anything("More about the case; null when there is none"),
            retry_after=or_null(decimal("Seconds after which calling again may help"), "when nothing says so"),
        ),
        "unless it failed or timed out",
    ),
    "created_at": or_null(text("When it was accepted, as the provider says"), "when it does not"),
    "updated_at": or_null(text("When it last changed, the same"), "when it does not say"),
    "completed_at": or_null(text("When it ended, the same"), "when it has not, or nobody says"),
    "status_url": or_null(text("Where it is asked for"), "when nothing says"),
    "result_url": or_null(text("Where its output is"), "when nothing says"),
    "summary": text("What came of it in a sentence; empty but at an endpoint of the Skills Protocol, as the next two"),
    "log": text("The end of what it printed"),
    "blobs": some(
        "Files that it left there",
        fields(
            "A file",
            blob_id=text("What to read it by: skillwire cat REFERENCE BLOB_ID"),
            kind=text("Its media type; empty when nothing says"),
            size=number("Bytes"),
            name=text("Its name; empty when nothing says"),
        ),
    ),
}
_TASK: Final = fields(
    "A task for a person",
    id=text("The ID of its execution"),
    skill=text("The name of the skill"),
    version=text("Its version"),
    title=text("What is asked, in few words"),
    description=text("What is asked; may be empty"),
    status=text("How far its execution is", "accepted", "running", "completed", "failed", "timeout"),
    held_by=or_null(text("Who has claimed it"), "where nobody has"),
    mine=flag("Whether whoever asks has claimed it"),
    priority=text("How urgent its caller calls it", "low", "normal", "high"),
    caller=text("Who called the skill, as it said of itself"),
    created_at=text("RFC 3339 in UTC"),
    due_at=text("When it ends as timeout, RFC 3339 in UTC"),
)

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
DOCUMENTS: Final[dict[str, Schema]] = {
    "call/1": may_lack(
        fields(
            "A call that has completed, or, with --no-wait, was accepted.",
            **_EXECUTION,
            lan=fields(
                "Of a call by lan: who was called, and who was not",
                skill=fields("Who has answered", **LAN_SKILL),
                passed_over=some(
                    "Who was not called, or did not accept",
                    fields(
                        "One of them",
                        skill=fields("Which", **LAN_SKILL),
                        code=text("Why, as a code"),
                        reason=text("Why, in words"),
                    ),
                ),
            ),
        ),
        "lan",
    ),
    "call-plan/1": fields(
        "What call would send, with --dry-run.",
        skill_id=text("The id of the skill"),
        request=fields(
            "The request",
            method=text("The method", "GET", "POST", "PUT", "DELETE"),
            url=text("The URL"),
            headers={
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The header fields; a credential is shown as ...",
            },
            body=anything("The InvocationRequest; null when the inputs are in the URL"),
        ),
        inputs={"type": "object", "additionalProperties": True, "description": "The inputs, with defaults"},
    ),
    "executions-list/1": fields(
        "Recent calls from this machine, newest first.",
        executions=some(
            "The executions",
            fields(
                "An execution",
                execution_id=text("Its ID at the provider"),
                skill_id=text("The ID of the skill"),
                reference=text("The reference of the skill"),
                created_at=text("When it was called, RFC 3339 in UTC"),
                status_url=or_null(text("The URL of its status"), "where the provider names none"),
            ),
        ),
    ),
    "executions-show/1": fields("How far an execution is.", **_EXECUTION),
    "executions-result/1": fields("An execution that has completed.", **_EXECUTION),
    "executions-cancel/1": fields("An execution that was to be taken back.", **_EXECUTION),
    "inbox/1": fields("Tasks that wait for a person or are worked on.", tasks=some("The most urgent first", _TASK)),
    "task/1": fields(
        "A task, after what was done with it.",
        dry_run=DRY_RUN,
        did=text("What was done", "shown", "claimed", "completed", "rejected", "released"),
        task=_TASK,
        inputs=anything("What its caller gave, by name"),
        output_schema=anything("The JSON Schema of what is to be handed in; null when any JSON will do"),
        fields=some(
            "The fields of its form, as complete takes them",
            fields(
                "A field",
                name=text("Its name, with a dot before what is inside of an object"),
                kind=text("What is typed", *get_args(FieldKind)),
                label=text("What it is called for people"),
                description=text("What it means; may be empty"),
                required=flag("Whether nothing can be handed in without it"),
                choices=texts("What may be typed, where that is a choice"),
                default=or_null(text("What counts where nothing is typed"), "where that is nothing"),
            ),
        ),
    ),
}
