"""Help after an error: the likely spelling of a mistyped word, and fixes that depend on environment, project and lock.

Only an error imports this module. A file that cannot be read adds no advice, since the user needs the first error.

Examples of every command, for ``--help`` and the man pages: each line belongs to the command that it calls.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from skillwire.errors import Diagnostics, SkillwireError, UsageError

#: Words that users of other tools type → the command to suggest. Real aliases are in :mod:`skillwire.cli.main`.
SUGGESTIONS: Final = {
    "get": "add", "sync": "add --frozen", "ci": "add --frozen", "use": "add",
    "uninstall": "remove", "delete": "remove", "un": "remove", "installed": "list", "query": "find",
    "info": "show", "view": "show", "inspect": "show", "describe": "show", "read": "show --body",
    "up": "update", "pull": "update",
    "pack": "build", "export": "build", "push": "publish", "upload": "publish", "unpublish": "yank",
    "lint": "check", "test": "check", "audit": "verify",
    "new": "init", "create": "init", "scaffold": "init",
    "dev": "serve", "start": "serve", "server": "serve", "run": "call", "invoke": "call", "execute": "call",
    "abort": "executions cancel", "stop": "executions cancel", "cancel": "executions cancel",
    "wait": "executions result", "result": "executions result", "status": "executions show",
    "login": "auth login", "logout": "auth logout", "logins": "auth status", "whoami": "auth status",
    "origins": "trust list", "grants": "grant list", "approve": "grant add", "work": "worker", "tokens": "token list",
    "diagnose": "doctor", "health": "doctor", "where": "which", "resolve": "which",
    "settings": "config show", "configure": "config show", "error": "explain", "rule": "explain",
    "version": "--version",
}  # fmt: skip
#: A word that is less alike than the likeliest by this much was not meant.
_ALIKE: Final = 0.1
_CUTOFF: Final = 0.67  # less alike than this is a guess, such as add for badcmd


def advised(error: SkillwireError) -> Diagnostics:
    """Return the diagnostics of ``error``, with a fix for the current project."""
    diagnostics = error.diagnostics()
    if error.code == "NO_SOURCES" and "name" in error.details:
        with suppress(SkillwireError):  # another file is broken too; the user needs the first error
            fix = _installed(str(error.details["name"]))
            return diagnostics._replace(fix=fix or diagnostics.fix)
    return diagnostics


def _installed(name: str) -> str | None:
    from skillwire.client.sync import Client  # noqa: PLC0415  # only a bare name needs it

    for locked in Client().installed():
        if locked.name == name and locked.index:
            return f"{locked.name} is installed here from {locked.origin}; write {locked.origin}/{locked.name}."
    return None


#: The modules of the packages in the extra ``server``.
SERVER_MODULES: Final = {
    "brotli", "dns", "httptools", "jinja2", "joserfc", "markdown_it", "nh3", "prometheus_client", "python_multipart",
    "segno", "starlette", "uvicorn", "uvloop", "watchfiles",
}  # fmt: skip


def missing_extra(error: BaseException) -> SkillwireError | None:
    """Return the error for a package of the extra ``server`` that ``error`` did not find; None for any other error."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return UsageError("EXTRA_MISSING", f"{name} is not installed") if name in SERVER_MODULES else None


def closest(text: str, known: Iterable[str]) -> list[str]:
    """Return up to three of ``known`` that resemble ``text``, ignoring case; the likeliest first."""
    by_folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(text.casefold(), by_folded, n=3, cutoff=_CUTOFF)
    likeness = [difflib.SequenceMatcher(None, name, text.casefold()).ratio() for name in found]
    return [by_folded[name] for name, ratio in zip(found, likeness, strict=True) if ratio > likeness[0] - _ALIKE]


def did_you_mean(candidates: Iterable[str]) -> str:
    """Return the question; empty when there is nothing to propose."""
    listed = " or ".join(candidates)
    return f"Did you mean {listed}?" if listed else ""


def unknown_command(
    name: str, known: Iterable[str], program: str = "skillwire", aliases: Mapping[str, str] | None = None
) -> UsageError:
    """Return the error for an unknown command, with a suggestion; only the program itself has ``aliases``."""
    aliases = SUGGESTIONS | dict(aliases) if aliases else {}
    close = closest(name, [*known, *aliases])
    commands = [aliases[name.lower()]] if name.lower() in aliases else [aliases.get(word, word) for word in close]
    fix = did_you_mean(f"{program} {command}" for command in dict.fromkeys(commands))
    return UsageError(
        "USAGE", f"there is no command {ascii(name)[:60]}", fix=fix or f"{program} --help lists the commands."
    )


def usage_error(error: click.ClickException) -> UsageError:
    """Return click's exception as a ``UsageError`` with the usage of the command."""
    message, fix = error.format_message().rstrip("."), None
    context = error.ctx if isinstance(error, click.UsageError) else None
    for kind in ("integer", "float"):
        message = message.replace(f"a valid {kind} range", "a whole number" if kind == "integer" else "a number")
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option {ascii(error.option_name)[1:-1][:60]}"
        options = [option for parameter in error.ctx.command.params for option in parameter.opts] if error.ctx else []
        fix = did_you_mean(closest(error.option_name, options))
        if not fix and error.ctx is not None and error.ctx.parent is None:
            fix = f"Options stand behind the command: skillwire COMMAND {error.option_name}."
    elif (
        isinstance(error, click.BadParameter)
        and error.param is not None
        and isinstance(error.param.type, click.Path)
        and "does not exist" in error.message
    ):
        message = error.message.rstrip(".")
        fix = f"Check the spelling; a relative path begins at {Path.cwd()}."
    if not fix and context is not None:
        pieces = " ".join(context.command.collect_usage_pieces(context))
        fix = f"Call it as: {context.command_path} {pieces}; --help explains it."
    return UsageError("USAGE", message[:1].lower() + message[1:], fix=fix or None)


_MOST: Final = 6  # of a command in its help
EXAMPLES: Final = """\
skillwire init pdf-forms
skillwire init report --script --manifest
skillwire check
skillwire check skills --fix
skillwire build skills -o site --base-url https://example.com
skillwire serve skills
skillwire serve skills --lan --grant-all
skillwire share skills/pdf-forms
skillwire share skills/pdf-forms --once --for 10m
skillwire find csv --from example.com
skillwire find --lan
skillwire show example.com/csv-profile
skillwire show example.com/csv-profile --body
skillwire add example.com/csv-profile
skillwire add owner/repo/skills/notes@^1.2 --agent claude-code
skillwire add --frozen
skillwire list
skillwire outdated
skillwire update csv-profile
skillwire update csv-profile --to 1.2.0
skillwire remove csv-profile
skillwire verify
skillwire call example.com/working-days start=2026-04-02 days=3
skillwire call example.com/working-days --inputs inputs.json -o answer.json
skillwire call lan:org-data-read query=Keller
skillwire doctor
skillwire publish skills/csv-profile --registry https://r.example
skillwire yank acme/csv-profile@1.0.0 --reason 'wrong totals' --registry https://r.example
skillwire deprecate acme/csv-profile --successor acme/tables --reason 'see acme/tables' --registry https://r.example
skillwire registry init alice
skillwire registry whoami --registry https://r.example
skillwire registry namespace create acme --registry https://r.example
skillwire registry namespace list --registry https://r.example
skillwire registry namespace prove acme --dns acme.example --registry https://r.example
skillwire registry namespace rename acme acme-tools --registry https://r.example
skillwire registry member list acme --registry https://r.example
skillwire registry member add acme bob publisher --registry https://r.example
skillwire registry member remove acme bob --registry https://r.example
skillwire registry token create ci --scope publish --expires 90d --registry https://r.example
skillwire registry token list --registry https://r.example
skillwire registry token revoke p3aojyouc4msnbff --registry https://r.example
skillwire registry account link bob --issuer https://login.example.com --subject 4711 --registry https://r.example
skillwire registry access acme/csv-profile private --registry https://r.example
skillwire registry share acme/csv-profile bob --registry https://r.example
skillwire registry rename acme/csv acme/csv-profile --registry https://r.example
skillwire registry status acme/csv-profile@1.0.0 quarantined --reason 'under review' --registry https://r.example
skillwire registry audit --verify --registry https://r.example
skillwire registry export backup
skillwire registry import backup
skillwire registry blobs move --to s3 --store postgresql://db.example/skillwire
skillwire registry migrate --to postgresql://skillwire@db.example/skillwire
skillwire registry stats --registry https://r.example
skillwire validate weather.json
skillwire marketplace import owner/repo -o skills
skillwire marketplace export skills
skillwire mcp skills
skillwire mcp serve skills --execute --pin working-days
skillwire mcp install skills --client claude-code --dry-run
skillwire mcp install --server https://example.com --client codex
skillwire mcp uninstall --client claude-code
skillwire rpc skills --execute
skillwire grant add skills/working-days
skillwire grant list
skillwire grant revoke working-days
skillwire worker --workers 4
skillwire inbox list
skillwire inbox show exec-6f1c2b3a
skillwire inbox claim exec-6f1c2b3a
skillwire inbox release exec-6f1c2b3a
skillwire inbox complete exec-6f1c2b3a picked=true
skillwire inbox reject exec-6f1c2b3a --reason 'out of stock'
skillwire token create ann --scope operator
skillwire token list
skillwire token rotate p3aojyouc4msnbff --overlap 2h
skillwire token revoke p3aojyouc4msnbff
skillwire top
skillwire top https://skills.example.com --once
skillwire cat example.com/csv-profile SKILL.md
skillwire diff csv-profile
skillwire which example.com/csv-profile --explain
skillwire executions list
skillwire executions show exec-6f1c2b3a
skillwire executions result exec-6f1c2b3a --timeout 30s
skillwire executions cancel exec-6f1c2b3a
skillwire auth login example.com
skillwire auth status
skillwire auth logout example.com
skillwire trust list
skillwire trust revoke example.com
skillwire lan
skillwire lan --json --for 10s
skillwire lan trust office-1f02ab
skillwire scene list
skillwire scene join auth
skillwire scene request auth --from example.com
skillwire dht serve
skillwire dht status
skillwire dht put example.com/csv-profile --capability table-read
skillwire dht get csv-profile
skillwire dht find --capability table-read
skillwire dht remove csv-profile
skillwire dht ping 192.0.2.7:6881
skillwire key show
skillwire key new
skillwire key enroll --registry https://r.example
skillwire key install certificate
skillwire ca init authority --name example
skillwire ca issue authority --request agent.csr -o certificate
skillwire ca renew authority
skillwire ca revoke authority office-1f02ab
skillwire ca list authority
skillwire explain ENDPOINT_FOREIGN
skillwire explain --schema skill.toml
skillwire config show --origin
skillwire config path
skillwire config check server.toml
skillwire config serve --config server.toml
skillwire completion bash
"""


def examples_of(path: str) -> list[str]:
    """Return the examples of a command, such as ``skillwire executions show``, and of the commands below it."""
    return [line for line in EXAMPLES.splitlines() if f"{line} ".startswith(f"{path} ")]


def add_examples(command: click.Command, path: str) -> None:
    """Let the help of a command, and of the commands below it, end with examples."""
    command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples_of(path)[:_MOST])])
    for name, part in command.commands.items() if isinstance(command, click.Group) else ():
        add_examples(part, f"{path} {name}")
