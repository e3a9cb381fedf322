"""What commands print with ``--json`` that publish skills, and let them run. See :mod:`skillwire.cli.documents`."""

from __future__ import annotations

from typing import Final

from skillwire.cli.document_parts import (
    DRY_RUN,
    ERROR,
    PLACE,
    Schema,
    anything,
    fields,
    flag,
    number,
    or_null,
    some,
    text,
    texts,
)

#: Name and number → what it is, and its fields beside ``schema`` and ``findings``.
DOCUMENTS: Final[dict[str, Schema]] = {
    "init/1": fields(
        "What init made.",
        name=text("The name"),
        path=text("The folder"),
        files=texts("The files in it"),
        dry_run=DRY_RUN,
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
        dry_run=DRY_RUN,
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
        dry_run=DRY_RUN,
    ),
    "grant-add/1": fields(
        "What skills ask for, and whether it was granted.",
        dry_run=DRY_RUN,
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
    "grant-list/1": fields(
        "What was granted, oldest first.",
        dry_run=DRY_RUN,
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
    "worker/1": fields(
        "That executions are run from now on.",
        workers=number("How many run at once"),
        grant_all=flag("Whether skills run that nobody granted"),
    ),
}

#: What ``serve --json`` prints, one object a line: event → its fields beside ``schema`` and ``event``.
SERVE_EVENTS: Final[dict[str, Schema]] = {
    "listening": fields(
        "The first line: requests are answered from now on.",
        address=text("The URL under which this machine reaches it"),
        announced=texts("The URLs at which others on the local network are told that it is; none without --lan"),
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
