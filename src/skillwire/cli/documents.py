"""The JSON documents that commands print with ``--json``: one schema for each name, JSON Schema 2020-12.

A document names its schema in the field ``schema``, as ``skillwire/NAME/N``. Within a number N a field is never taken
away, never renamed and never given another meaning or type; fields may be added, and values to a list of allowed ones.
Anything else makes N+1. The schemas say what this version prints, to the letter: tests hold every document that
any test makes the commands print against them, so an undocumented field fails.
"""

from __future__ import annotations

from typing import Final, get_args

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
from skillwire.invocation.forms import FieldKind

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DRY_RUN: Final = flag("Whether nothing was changed, because of --dry-run")
_CONFIG_VALUE: Final = {
    "value": anything("The value: a text, true or false, or a list of texts"),
    "from": text("Where it comes from"),
}
_CERTIFIED: Final = {
    "agents": texts("The agents that it is for"),
    "skills": texts("The skills that it is for, whoever offers them"),
    "hosts": texts("The addresses and names that its holder may announce"),
}
_AGENT_CERTIFICATE: Final = fields(
    "The agent's certificate",
    serial=text("Its number, in hexadecimal"),
    **_CERTIFIED,
    by=text("Who has signed it", "ourselves", "authority"),
    expires_at=text("RFC 3339 in UTC"),
    good=flag("Whether it has not ended"),
)
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
_LAN_SKILL: Final = {
    "agent_id": text("Who offers it; empty when only others tell of it"),
    "skill_id": text("Its identifier in Skill Discovery"),
    "skill_type": text("What it is, such as tool-skill; empty when only others tell of it"),
    "endpoint": text("HOST:PORT of its server"),
    "capabilities": texts("What it can do"),
    "scenes": texts("The scenes that it takes part in"),
    "status": text("How it is", "HEALTHY", "DEGRADED", "UNHEALTHY", "MAINTENANCE", "OFFLINE", "UNKNOWN"),
    "trust": text(
        "Whether its key has a certificate that leads to a configured root; that is not known of what was only told",
        "verified",
        "unverified",
        "not known",
    ),
    "found_via": text("Where it was heard of", "multicast", "mdns", "cache"),
    "heard_at": decimal("When the last sign of life came, in seconds since the epoch"),
    "stale": flag("Whether the network is suspected, and not the skill"),
}
_MEMBERS: Final = some(
    "Who provides it, the PRIMARY first",
    fields(
        "A provider",
        agent_id=text("Whose it is"),
        skill_id=text("Which skill"),
        role=text("What it is in the group", "PRIMARY", "BACKUP"),
    ),
)
_SCENE: Final = {
    "scene": text("Its name"),
    "group_id": text("The group of those who provide it"),
    "members": _MEMBERS,
}
_JOINED: Final = {
    **_SCENE,
    "skill_id": text("The skill that the connection leads to"),
    "version": text("Of that skill"),
    "capabilities": texts("What that skill can do"),
    "connection_info": {
        "type": "object",
        "additionalProperties": {"type": ["string", "integer"]},
        "description": "How it is reached: the keys of SDP 4.3 and endpoint; apiKey and expiresAt if it gave a key",
    },
    "no_key": text("Why the provider gave no key that it could have given; empty when there is nothing to say"),
}
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
    "marketplace-import/1": fields(
        "What marketplace import took.",
        marketplace=text("The name of the marketplace; empty when it has none"),
        plugins=number("How many of its plugins could be read"),
        dry_run=_DRY_RUN,
        skills=some(
            "The skills that were taken, by name",
            fields(
                "A skill",
                name=text("The name, which is that of its folder too"),
                state=text("What became of its folder", "new", "replaced", "unchanged"),
                plugin=text("The plugin that it is of"),
                **{"from": text("The folder or URL where it was")},
            ),
        ),
        failed={"type": "object", "additionalProperties": ERROR, "description": "By name, what was not taken and why"},
    ),
    "marketplace-export/1": fields(
        "What marketplace export wrote.",
        marketplace=text("The name of the marketplace"),
        path=text("The file"),
        skills=texts("The names of the skills that it lists"),
        not_public=number("How many more were found and not listed, as they are not public"),
        dry_run=_DRY_RUN,
    ),
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
                    lan=fields("With --lan: what the local network says of it", **_LAN_SKILL),
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
    "call/1": may_lack(
        fields(
            "A call that has completed, or, with --no-wait, was accepted.",
            **_EXECUTION,
            lan=fields(
                "Of a call by lan: who was called, and who was not",
                skill=fields("Who has answered", **_LAN_SKILL),
                passed_over=some(
                    "Who was not called, or did not accept",
                    fields(
                        "One of them",
                        skill=fields("Which", **_LAN_SKILL),
                        code=text("Why, as a code"),
                        reason=text("Why, in words"),
                    ),
                ),
            ),
        ),
        "lan",
    ),
    "scene/1": fields("A scene that was joined.", **_JOINED),
    "scene-list/1": fields(
        "The scenes of the local network.", scenes=some("Each, by name", fields("A scene", **_SCENE))
    ),
    "scene-request/1": fields(
        "What scene request has installed, since nobody on the network provided the scene.",
        scene=text("Its name"),
        skill=text("The skill that was chosen"),
        provided=flag("Whether it is served from now on, with --provide"),
        **_REPORT,
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
    "status/1": fields("How far an execution is.", **_EXECUTION),
    "result/1": fields("An execution that has completed.", **_EXECUTION),
    "cancel/1": fields("An execution that was to be taken back.", **_EXECUTION),
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
    "ca/1": fields(
        "A certificate authority of the local network that was made; nothing in it is secret.",
        dry_run=_DRY_RUN,
        folder=text("Its folder"),
        root=text("The file of the root's certificate, which agents trust"),
        center=text("The file of the certificate of the SkillCenter CA, which issues"),
        revocations=text("The file of the signed list of what was taken back"),
        encrypted=flag("Whether its keys are encrypted"),
    ),
    "ca-issue/1": fields(
        "A certificate that was issued.",
        dry_run=_DRY_RUN,
        serial=or_null(text("Its number, in hexadecimal"), "with --dry-run"),
        **_CERTIFIED,
        expires_at=text("RFC 3339 in UTC"),
        certificate=text("The file that it was written to"),
        key=or_null(text("The file of the key that was made for it"), "when it was asked for by a request"),
    ),
    "ca-list/1": fields(
        "Certificates that an authority has issued, or taken back; SkillCenter CAs are among them.",
        dry_run=_DRY_RUN,
        certificates=some(
            "The certificates, oldest first",
            fields(
                "A certificate",
                serial=text("Its number, in hexadecimal"),
                authority=or_null(text("The name of a SkillCenter CA"), "for an agent or a skill"),
                issuer=or_null(text("The number of the SkillCenter CA that has issued it"), "for one of the root"),
                **_CERTIFIED,
                state=text("Whether it is worth anything", "good", "ended", "revoked"),
                issued_at=text("RFC 3339 in UTC"),
                expires_at=text("RFC 3339 in UTC"),
                revoked_at=or_null(text("RFC 3339 in UTC"), "unless it, or who has issued it, was taken back"),
                renews=or_null(text("The number of the certificate that asked for it"), "when a person did"),
            ),
        ),
    ),
    "key/1": fields(
        "The key of this agent of the local network, and its certificate; nothing in it is secret.",
        agent=or_null(text("The agent's name"), "before one was made"),
        key=or_null(text("The file of the key"), "before one was made"),
        fingerprint=or_null(
            text("SHA-256 of the public key, `sha256:` and 64 hexadecimal characters"), "without a key"
        ),
        certificate=or_null(_AGENT_CERTIFICATE, "before one was made"),
    ),
    "key-request/1": fields(
        "A request for the certificate of this agent; nothing in it is secret.",
        dry_run=_DRY_RUN,
        **_CERTIFIED,
        new=flag("Whether the key is a new one"),
        request=or_null(text("The request, PEM, for ca issue --request"), "with --dry-run"),
    ),
    "key-install/1": fields(
        "A certificate that was installed for this agent.",
        dry_run=_DRY_RUN,
        key=flag("Whether a key came with it"),
        certificate=_AGENT_CERTIFICATE,
    ),
    "grant/1": fields(
        "What skills ask for, and whether it was granted.",
        dry_run=_DRY_RUN,
        skills=some(
            "The skills",
            fields(
                "A skill that runs something",
                name=text("The name"),
                version=text("The version"),
                path=text("Its folder"),
                digest=text("That of the artifact that is published, which a grant is for"),
                executor=text("What runs it", "python", "http"),
                entrypoint=or_null(text("The file of the code that is run"), "where an API is called"),
                url=or_null(text("The API that is called"), "where code is run"),
                health=or_null(
                    fields(
                        "What is run or asked, again and again, to know how the skill is",
                        entrypoint=or_null(text("The file of the code that is run"), "where a URL is asked"),
                        export=or_null(text("The function in it"), "where a URL is asked"),
                        url=or_null(text("The URL that is asked"), "where code is run"),
                        interval=number("Seconds from the begin of one check to that of the next"),
                    ),
                    "where the skill does not say",
                ),
                network=texts("The origins that it may reach"),
                secrets=texts("The variables whose values it is given"),
                files=number("How many files it has"),
                size=number("Bytes of all of them"),
                granted=flag("Whether it may be run now"),
                granted_before=flag("Whether exactly this had been granted before"),
                changes=or_null(
                    fields(
                        "What is new since the last grant of a skill of that name",
                        since=text("The digest that was granted then"),
                        network=texts("New origins"),
                        secrets=texts("New variables"),
                        new=texts("New files"),
                        changed=texts("Files with other content"),
                        gone=texts("Files that are gone"),
                    ),
                    "where there was none",
                ),
            ),
        ),
    ),
    "grants/1": fields(
        "What was granted, oldest first.",
        dry_run=_DRY_RUN,
        grants=some(
            "The grants; those that were taken back, of revoke",
            fields(
                "A grant",
                name=text("The skill"),
                version=text("Its version"),
                digest=text("The artifact that may be run"),
                network=texts("The origins that it may reach"),
                secrets=texts("The variables whose values it is given"),
                by=text("Who agreed"),
                at=text("When, RFC 3339 in UTC"),
                revoked=flag("Whether it was, or would be, taken back"),
            ),
        ),
    ),
    "inbox/1": fields("Tasks that wait for a person or are worked on.", tasks=some("The most urgent first", _TASK)),
    "task/1": fields(
        "A task, after what was done with it.",
        dry_run=_DRY_RUN,
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
    "work/1": fields(
        "That executions are run from now on.",
        workers=number("How many run at once"),
        grant_all=flag("Whether skills run that nobody granted"),
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
    "lan": fields(
        "The server is on the local network from now on, or cannot be, which it goes on trying.",
        agent=or_null(text("The name under which its skills are announced"), "when it cannot"),
        reason=or_null(text("Why it cannot"), "when it is"),
    ),
    "stopped": fields("The last line: every answer under way was finished, or its time was up."),
}

_AT: Final = decimal("When, in seconds since the epoch")
_SCENE_CHANGE: Final = fields(
    "Something has happened to the scene, or to a skill in it",
    at=decimal("When, in seconds since the epoch"),
    skill=or_null(fields("The skill, as it is or last was", **_LAN_SKILL), "when it is about the scene"),
    scene=or_null(fields("The scene, as it is", **_SCENE), "when it is about a skill"),
)
_SCENE_EVENTS: Final = {
    "joined": fields("The scene was joined", **_JOINED),
    **dict.fromkeys(
        ("registered", "updated", "status", "suspected", "stale", "left", "evicted", "scene", "missed"), _SCENE_CHANGE
    ),
}
_LISTED: Final = {**_LAN_SKILL, "version": text("Its version")}
_LAN_CHANGES: Final = {
    "registered": "A skill is there.",
    "updated": "A skill says something else of itself.",
    "status": "The health of a skill is another one.",
    "suspected": "A skill is silent, and is being asked whether it lives.",
    "stale": "A skill fell silent together with so many others that the network is suspected.",
    "left": "A skill said goodbye.",
}
_EVICTED: Final = may_lack(
    fields(
        "A skill was silent for so long that it is forgotten, or for a reason.",
        at=_AT,
        skill=fields("It, as it last was", **_LISTED),
        reason=text("Its certificate was taken back; not there when it was silent", "revoked"),
    ),
    "reason",
)
_LAN_EVENTS: Final = {
    "snapshot": fields(
        "All that is known: the first line, and once more after missed",
        at=_AT,
        agent_id=text("Who listens: the name of this machine's agent"),
        network_suspected=flag("Whether so many fell silent that it is the network, and not they"),
        skills=some("Every skill, by agent and name", fields("A skill", **_LISTED)),
        scenes=some("Every scene, by name", fields("A scene", **_SCENE)),
    ),
    **{
        event: fields(meaning, at=_AT, skill=fields("It, as it is or last was", **_LISTED))
        for event, meaning in _LAN_CHANGES.items()
    },
    "evicted": _EVICTED,
    "scene": fields(
        "A scene has another PRIMARY, or other members.", at=_AT, scene=fields("The scene, as it is", **_SCENE)
    ),
    "missed": fields("More has happened than could be told: a snapshot follows.", at=_AT),
}
#: Documents that are printed one object a line: who prints them, and their events.
_STREAMS: Final = {
    "serve/1": ("serve", _SERVE_EVENTS),
    "lan/1": ("lan", _LAN_EVENTS),
    "scene-event/1": ("scene join and request, with --follow,", _SCENE_EVENTS),
}


def schema_of(name: str) -> Schema:
    """Return the schema of the document ``name``, such as ``find/1``.

    Raises:
        KeyError: there is no such document.
    """
    head = {"$schema": DIALECT, "title": f"skillwire/{name}"}
    named = {"schema": {"const": f"skillwire/{name}", "description": "The name of this document"}}
    if name in _STREAMS:
        printed_by, events = _STREAMS[name]
        lines = [
            _with(content, {**named, "event": {"const": event, "description": "What happened"}})
            for event, content in events.items()
        ]
        return {**head, "description": f"What {printed_by} prints, one object a line.", "oneOf": lines}
    finding = FINDING
    if name == "check/1":  # a report for publishers tells the cause, too
        finding = _with(FINDING, {"cause": text("Why it matters")})
    findings = {"findings": some("What was skipped or is doubtful", finding)}
    return {**head, **_with(_with(_CONTENTS[name], named), {}, findings)}


def names() -> list[str]:
    """Return the name of every document, by alphabet."""
    return sorted([*_CONTENTS, *_STREAMS])


def _with(schema: Schema, before: Schema, after: Schema | None = None) -> Schema:
    after = after or {}
    return {
        **schema,
        "properties": {**before, **schema["properties"], **after},
        "required": [*before, *schema["required"], *after],
    }
