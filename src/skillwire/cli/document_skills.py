"""What commands print with ``--json`` that find, show and install skills. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Final

from skillwire.cli.document_lan import LAN_SKILL
from skillwire.cli.document_parts import (
    COMPARISON,
    DRY_RUN,
    ERROR,
    FOLDERS,
    LOCKED,
    REF,
    REF_FIELDS,
    REPORT,
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

_LOOKUP: Final = fields(
    "A place that was looked at",
    url=text("The index that was asked"),
    answered_by=anything("The URL that answered; null when none did"),
    age_seconds=anything("How old the answer is"),
    fresh_for_seconds=anything("How long it may be used without asking again"),
    generation=anything("The generation of the index; null when there is none"),
    entries=anything("How many skills it lists; null when there is none"),
    credential=or_null(text("Where the credential came from that was sent"), "when none was"),
    address_policy=text("allowed, or the code of the refusal"),
    error=or_null(ERROR, "when it was read"),
)

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
DOCUMENTS: Final[dict[str, Schema]] = {
    "find/1": fields(
        "What find found, best first.",
        query=text("The words that were searched"),
        total=number("How many skills match"),
        hits=some(
            "The best of them",
            may_lack(
                fields(
                    "A hit",
                    **REF_FIELDS,
                    score=decimal("Higher is better"),
                    lan=fields("With --lan: what the local network says of it", **LAN_SKILL),
                ),
                "lan",
            ),
        ),
    ),
    "show/1": may_lack(
        fields(
            "What show tells of a skill.",
            skill=REF,
            type=text(
                "What its artifact is; none when it is only described", "skill-md", "archive", "files", "folder", "none"
            ),
            descriptor=anything("Its Skill Descriptor, as SkillDescriptor of Skill Sharing; for a described one"),
            manifest={
                "type": "object",
                "additionalProperties": True,
                "description": "What skill.toml says, of a skill at an endpoint of the Skills Protocol",
            },
            frontmatter=anything("What SKILL.md says above its body, of such a skill; null when the endpoint does not"),
            body=text("With --body: its instructions"),
            files=some(
                "With --files: its files",
                fields("A file", path=text("Its path"), size=number("Bytes"), executable=flag("Whether it may be run")),
            ),
        ),
        "descriptor",
        "manifest",
        "frontmatter",
        "body",
        "files",
    ),
    "cat/1": fields(
        "A file of a skill.",
        reference=text("The skill, as it was typed"),
        path=text("The path of the file"),
        size=number("Bytes"),
        encoding=text("How content holds it", "text", "base64"),
        content=text("The file"),
    ),
    "add/1": fields("What add did.", **REPORT),
    "update/1": fields("What update did.", compared=some("Each skill beside its origin", COMPARISON), **REPORT),
    "plan/1": may_lack(
        fields(
            "What add or update would do, with --dry-run.",
            compared=some("With update: each skill beside its origin", COMPARISON),
            skills=some(
                "What would happen to each skill",
                fields(
                    "A skill",
                    name=text("The name"),
                    state=text("What would be done", "new", "update", "unchanged", "conflict"),
                    reason=anything("Why it is a conflict; empty or null otherwise"),
                    origin=text("The publisher's place"),
                    **FOLDERS,
                ),
            ),
            unknown_origins=texts("Origins that nobody has agreed to yet"),
            consent=flag("Whether --yes would stand for that consent"),
            overwrite=flag("Whether --overwrite would replace what is in the way"),
        ),
        "compared",
    ),
    "list/1": fields(
        "What is installed.",
        root=text("The folder that places are relative to"),
        skills=some("The skills, by name", LOCKED),
    ),
    "remove/1": fields(
        "What remove took away.",
        dry_run=DRY_RUN,
        skills=some("The skills", LOCKED),
        changed=texts("Those of them whose files were changed here"),
    ),
    "outdated/1": fields("Installed skills beside their origins.", skills=some("By name", COMPARISON)),
    "verify/1": fields(
        "That installed skills are what the lock says; else the document is an error.",
        skills=texts("The names"),
        deviations={"type": "array", "maxItems": 0, "description": "Always empty: with any, it is an error"},
    ),
    "trust/1": fields(
        "Origins that the user has agreed to.",
        dry_run=DRY_RUN,
        origins=some(
            "The origins",
            fields(
                "An origin",
                origin=text("Its URL"),
                first_seen=text("Since when it is known, RFC 3339 in UTC"),
                revoked=flag("Whether the consent was, or would be, withdrawn"),
            ),
        ),
    ),
    "which/1": fields(
        "What a reference means, and why.",
        reference=text("The reference, as it was typed"),
        error=or_null(ERROR, "when it means something"),
        skills=some(
            "What it means", fields("A skill", **REF_FIELDS, url=text("Its artifact"), index=text("Its index"))
        ),
        why=text("Why this one won"),
        lookups=some("Each place that was looked at, in order", _LOOKUP),
        others=some("Skills of that name elsewhere", REF),
        other_lookups=some("The places after the one that won", _LOOKUP),
        trust=or_null(
            fields(
                "How its origin stands",
                origin=text("Its URL"),
                decision=text("What add would do: allow, ask or refuse"),
                in_trusted_origins=flag("Whether the setting trusted_origins names it"),
                known_since=or_null(text("RFC 3339 in UTC"), "when nothing was seen of it"),
                agreed=flag("Whether somebody has agreed to it"),
            ),
            "for a folder, and for what is at an endpoint",
        ),
        installed=some(
            "What of that name is installed here",
            fields(
                "An installed skill",
                name=text("The name"),
                version=or_null(text("Its version"), "where there is none"),
                digest=or_null(text("Its digest"), "where there is none"),
                same_origin=flag("Whether it came from this origin"),
                current=anything("Whether it is what the origin has; null when that cannot be told"),
                intact=flag("Whether its files are what the lock says"),
            ),
        ),
    ),
}
