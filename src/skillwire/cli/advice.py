"""Help after an error: the likely spelling of a mistyped word, and fixes that depend on environment, project and lock.

Only an error imports this module. A file that cannot be read adds no advice, since the user needs the first error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from skillwire.errors import Diagnostics, SkillwireError, StorageError, UsageError

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
    "calls": "executions list", "wait": "executions result", "result": "executions result", "status": "executions show",
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


#: The modules of other extras of servers.
_OTHER_MODULES: Final = {"asyncpg": "postgres", "obstore": "s3"}


def missing_extra(error: BaseException) -> SkillwireError | None:
    """Return the error for a package of a server's extra that ``error`` did not find; None for any other error."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if extra := _OTHER_MODULES.get(name):
        what = f"'skillwire[server,{extra}] @ git+URL', or in a checkout '.[server,{extra}]'"
        fix = f"Install it where skillwire is, with uv tool install or pip install: {what}."
        return UsageError("EXTRA_MISSING", f"{name} is not installed", fix=fix)
    return UsageError("EXTRA_MISSING", f"{name} is not installed") if name in SERVER_MODULES else None


def removed_folder(error: BaseException) -> SkillwireError | None:
    """Return the error for a current folder that was removed; None for any other error."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            Path.cwd()
        except FileNotFoundError:
            fix = "Change to a folder that exists: cd"
            return StorageError("STORAGE", "the current folder was removed", fix=fix)
    return None


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
    name: str,
    known: Iterable[str],
    program: str = "skillwire",
    aliases: Mapping[str, str] | None = None,
    outside: Iterable[str] = (),
) -> UsageError:
    """Return the error for an unknown command, with a suggestion; only the program itself has ``aliases``.

    ``outside`` are the program's own commands where a group was asked, such as yank for registry yank.
    """
    aliases = SUGGESTIONS | dict(aliases) if aliases else {}
    close = closest(name, [*known, *aliases])
    commands = [aliases[name.lower()]] if name.lower() in aliases else [aliases.get(word, word) for word in close]
    fix = did_you_mean(f"{program} {command}" for command in dict.fromkeys(commands))
    if not fix and name in outside:
        fix = did_you_mean([f"skillwire {name}"])
    return UsageError(
        "USAGE", f"there is no command {ascii(name)[:60]}", fix=fix or f"{program} --help lists the commands."
    )


def usage_error(error: click.ClickException) -> UsageError:
    """Return click's exception as a ``UsageError`` with the usage of the command."""
    message, fix = " ".join(error.format_message().split()).rstrip(".").replace(". Choose from:", "; choose from"), None
    context = error.ctx if isinstance(error, click.UsageError) else None
    parameter = error.param if isinstance(error, click.BadParameter) else None
    if isinstance(parameter, click.Argument) and isinstance(parameter.type, click.Choice) and context is not None:
        message = message.replace(parameter.make_metavar(context), (parameter.name or "").upper())
    for kind in ("integer", "float"):
        message = message.replace(f"a valid {kind} range", "a whole number" if kind == "integer" else "a number")
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option {ascii(error.option_name)[1:-1][:60]}"
        parameters = error.ctx.command.params if error.ctx else []
        options = [name for option in parameters if isinstance(option, click.Option) for name in option.opts]
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
