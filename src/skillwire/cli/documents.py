"""The JSON documents that commands print with ``--json``: one schema for each name, JSON Schema 2020-12.

A document names its schema in the field ``schema``, as ``skillwire/NAME/N``. Within a number N a field is never taken
away, never renamed and never given another meaning or type; fields may be added, and values to a list of allowed ones.
Anything else makes N+1. The schemas say what this version prints, to the letter: tests hold every document that
any test makes the commands print against them, so an undocumented field fails.
"""

from __future__ import annotations

from typing import Final

from skillwire.cli.document_parts import (
    COMPARISON,
    ERROR,
    FINDING,
    FOLDERS,
    LOCKED,
    PLACE,
    REF,
    REF_FIELDS,
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

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DRY_RUN: Final = flag("Whether nothing was changed, because of --dry-run")
_CONFIG_VALUE: Final = {
    "value": anything("The value: a text, true or false, or a list of texts"),
    "from": text("Where it comes from"),
}
_REPORT: Final = {
    "root": text("The folder that places are relative to"),
    "installed": some("What was put in place", LOCKED),
    "updated": texts("Those of the installed that replaced an earlier version"),
    "unchanged": texts("What stood there already"),
    "failed": {"type": "object", "additionalProperties": ERROR, "description": "By name, what failed and why"},
}
_LOGIN: Final = {
    "origin": text("The only origin that it is sent to"),
    "kind": text("What it is", "api_key", "oauth2", "custom"),
    "header": text("The header field that carries it"),
    "expires_at": or_null(text("RFC 3339 in UTC"), "when that is not known"),
    "renewable": flag("Whether it is renewed by itself"),
    "server": or_null(text("The origin of the authorization server"), "when there is none"),
    "scope": or_null(text("What was granted"), "when it is no OAuth 2.0"),
    "stored_in": text("Where its secrets are", "file", "keyring"),
}
_TOKEN: Final = fields(
    "A token",
    id=or_null(text("What list, revoke and rotate call it"), "with --dry-run, before it is made"),
    name=text("Whose it is"),
    kind=text("What it is", "api_key", "signing_key"),
    state=text("Whether it may be used", "good", "ended", "revoked"),
    skills=texts("The skills that it opens; * is every one"),
    scopes=texts("What else it allows"),
    created_at=text("RFC 3339 in UTC"),
    expires_at=or_null(text("RFC 3339 in UTC"), "when it never ends by itself"),
    revoked_at=or_null(text("RFC 3339 in UTC"), "unless it was taken back"),
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
_CONTENTS: Final[dict[str, Schema]] = {
    "error/1": fields("Any command that fails.", error=ERROR),
    "init/1": fields(
        "What init made.",
        name=text("The name"),
        path=text("The folder"),
        files=texts("The files in it"),
        dry_run=_DRY_RUN,
    ),
    "check/1": fields(
        "What check found.",
        checked=texts("The folders and files that were looked at"),
        errors=number("How many findings are errors"),
        warnings=number("How many are warnings"),
        notes=number("How many are notes"),
    ),
    "validate/1": fields(
        "What validate found.",
        documents=some(
            "Each document",
            fields(
                "A document",
                source=text("The file or URL; - for standard input"),
                type=or_null(text("What it is", "descriptor", "index", "request", "response"), "when it is no JSON"),
                valid=flag("Whether nothing is wrong with it"),
                errors=some(
                    "Everything that is wrong",
                    fields(
                        "An error",
                        code=text("A code; skillwire explain CODE says more"),
                        path=text("Where, as a JSON Pointer; empty for the whole"),
                        message=text("What is wrong"),
                        expected=anything("What should stand there"),
                        actual=anything("What does; null when nothing does"),
                        place=PLACE,
                    ),
                ),
            ),
        ),
    ),
    "build/1": fields(
        "What build wrote.",
        site=text("The folder of the site"),
        skills=number("How many skills it holds"),
        not_public=number("How many more were found and not written, as they are not public"),
        read=number("How many were read"),
        unchanged=number("How many were known from the build before"),
        changes=or_null(
            fields("What changed on disk", written=number("Files written"), removed=number("Files removed")),
            "with --dry-run",
        ),
    ),
    "find/1": fields(
        "What find found, best first.",
        query=text("The words that were searched"),
        total=number("How many skills match"),
        hits=some("The best of them", fields("A hit", **REF_FIELDS, score=decimal("Higher is better"))),
    ),
    "show/1": may_lack(
        fields(
            "What show tells of a skill.",
            skill=REF,
            type=text(
                "What its artifact is; none when it is only described", "skill-md", "archive", "files", "folder", "none"
            ),
            descriptor=anything("Its Skill Descriptor, as SkillDescriptor of Skill Sharing; for a described one"),
            body=text("With --body: its instructions"),
            files=some(
                "With --files: its files",
                fields("A file", path=text("Its path"), size=number("Bytes"), executable=flag("Whether it may be run")),
            ),
        ),
        "descriptor",
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
    "add/1": fields("What add did.", **_REPORT),
    "update/1": fields("What update did.", compared=some("Each skill beside its origin", COMPARISON), **_REPORT),
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
        dry_run=_DRY_RUN,
        skills=some("The skills", LOCKED),
        changed=texts("Those of them whose files were changed here"),
    ),
    "outdated/1": fields("Installed skills beside their origins.", skills=some("By name", COMPARISON)),
    "verify/1": fields(
        "That installed skills are what the lock says; else the document is an error.",
        skills=texts("The names"),
        deviations={"type": "array", "maxItems": 0, "description": "Always empty: with any, it is an error"},
    ),
    "origins/1": fields(
        "Origins that the user has agreed to.",
        dry_run=_DRY_RUN,
        origins=some(
            "The origins",
            fields(
                "An origin",
                origin=text("Its URL"),
                first_seen=text("Since when it is known, RFC 3339 in UTC"),
                forgotten=flag("Whether the consent was, or would be, taken back"),
            ),
        ),
    ),
    "login/1": fields("The login that was made; nothing in it is secret.", **_LOGIN),
    "login-plan/1": fields(
        "What login would do, with --dry-run.",
        origin=text("The only origin that the credential would be sent to"),
        kind=text("What is wanted", "api_key", "oauth2", "custom"),
        header=or_null(text("The header field that would carry an API key"), "for another kind"),
        hosts=texts("The authorization server, as far as the origin names it"),
        scopes=texts("What would be asked for there"),
        stored_in=text("Where its secrets would be", "file", "keyring"),
    ),
    "logins/1": fields("Every login.", logins=some("By origin", fields("A login", **_LOGIN))),
    "logout/1": fields(
        "Where login was ended.",
        dry_run=_DRY_RUN,
        logouts=some(
            "Each origin",
            fields(
                "An origin",
                origin=text("The origin"),
                revoked=flag("Whether the server took the token back"),
            ),
        ),
    ),
    "token/1": fields(
        "A token that was made or taken back.",
        dry_run=_DRY_RUN,
        token=_TOKEN,
        secret=or_null(text("Shown now and never again"), "when none was made"),
        replaces=or_null(_TOKEN, "unless a token was replaced"),
    ),
    "tokens/1": fields("Every token, oldest first; nothing in it is secret.", tokens=some("The tokens", _TOKEN)),
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
            "for a folder",
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
    "doctor/1": fields(
        "What doctor looked at.",
        checks=some(
            "Each check",
            fields(
                "A check",
                section=text("The subject"),
                severity=text("The verdict", "ok", "warning", "problem"),
                what=text("What is so"),
                why=text("Why that matters; empty when all is well"),
                fix=text("What to do; empty when all is well"),
            ),
        ),
        counts={
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "description": "How many checks have each verdict",
        },
    ),
    "explain/1": fields(
        "What codes mean.",
        codes=some(
            "The codes",
            fields(
                "A code",
                code=text("The code"),
                kind=text("What it is a code of"),
                group=text("The group it is listed under"),
                summary=text("What it means"),
                cause=text("What usually causes it"),
                fix=text("What to do"),
                retryable=flag("Whether trying again may help"),
                exit_code=or_null(number("The exit code of a command that ends with it"), "when none does"),
                documentation=text("The page and anchor of the documentation"),
                strict=or_null(text("What check does with it when strict"), "when it is not applied, or no lint rule"),
                lenient=or_null(text("What check does with it when lenient"), "as above"),
                example=or_null(text("An example"), "where there is none"),
            ),
        ),
    ),
    "config-show/1": fields(
        "The settings in force.",
        settings=some(
            "The settings",
            fields(
                "A setting",
                setting=text("Its key"),
                **_CONFIG_VALUE,
                hides=some("Values of lower places that it hides", fields("A value", **_CONFIG_VALUE)),
            ),
        ),
        credentials=some(
            "For whom there are credentials; never the credentials themselves",
            fields("A credential", **{"origin": text("For whom"), "from": text("Where it stands")}),
        ),
    ),
    "config-path/1": fields(
        "The settings files.",
        project=or_null(text("The project's"), "when it has none"),
        user=text("The user's own"),
        user_exists=flag("Whether that exists"),
    ),
}

#: What ``serve --json`` prints, one object a line: event → its fields beside ``schema`` and ``event``.
_SERVE_EVENTS: Final[dict[str, Schema]] = {
    "listening": fields(
        "The first line: requests are answered from now on.",
        address=text("The URL under which this machine reaches it"),
        base_url=text("--base-url, or the address"),
        skills=number("How many skills are served"),
        open=number("How many of them are open to everybody"),
        add=text("A command that adds one of those; a hint when there is none"),
    ),
    "published": fields(
        "A revision is served from now on.",
        revision=number("Its number, from 1"),
        skills=number("How many skills it opens to everybody"),
        added=number("How many of them are new"),
        changed=number("How many have changed"),
        removed=number("How many are gone"),
    ),
    "broken": fields(
        "A skill cannot be published as it is; one line a fault.",
        skill=text("The name of its folder"),
        serving=flag("Whether its last good version is still served"),
        code=text("A code; skillwire explain CODE says more"),
        message=text("What is the matter"),
        place=text("File, line and column"),
        fix=text("What to do"),
    ),
    "stopped": fields("The last line: every answer under way was finished, or its time was up."),
}


def schema_of(name: str) -> Schema:
    """Return the schema of the document ``name``, such as ``find/1``.

    Raises:
        KeyError: there is no such document.
    """
    head = {"$schema": DIALECT, "title": f"skillwire/{name}"}
    named = {"schema": {"const": f"skillwire/{name}", "description": "The name of this document"}}
    if name == "serve/1":
        lines = [
            _with(content, {**named, "event": {"const": event, "description": "What happened"}})
            for event, content in _SERVE_EVENTS.items()
        ]
        return {**head, "description": "What serve prints, one object a line.", "oneOf": lines}
    finding = FINDING
    if name == "check/1":  # a report for publishers tells the cause, too
        finding = _with(FINDING, {"cause": text("Why it matters")})
    findings = {"findings": some("What was skipped or is doubtful", finding)}
    return {**head, **_with(_with(_CONTENTS[name], named), {}, findings)}


def names() -> list[str]:
    """Return the name of every document, by alphabet."""
    return sorted([*_CONTENTS, "serve/1"])


def _with(schema: Schema, before: Schema, after: Schema | None = None) -> Schema:
    after = after or {}
    return {
        **schema,
        "properties": {**before, **schema["properties"], **after},
        "required": [*before, *schema["required"], *after],
    }
