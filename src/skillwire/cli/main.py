"""The entry point ``skillwire``: a table of commands, each imported only when it is called.

The table contains the one-line help texts, so ``--help`` imports no command. The examples of every command end its help
and its man page. Every exception of a command ends here as an error with code, cause, place and fix, and an exit code
(``docs/reference/exit-codes.md``); ``--debug`` prints its stack trace too.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click

from skillwire.cli.output import Output, help_width, print_end
from skillwire.errors import SkillwireError, SourceLocation, StorageError
from skillwire.version import VERSION

#: Group → command → one line of help. ``--help`` prints the groups in this order, the common commands first.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "Common commands": {
        "init": "Create a new skill.",
        "check": "Report every problem of skills, a site or an index.",
        "build": "Write skills as a static site.",
        "serve": "Serve skills over HTTP, live.",
        "find": "Search for skills.",
        "show": "Inspect a skill before loading it.",
        "add": "Install skills, verified and locked.",
        "list": "List installed skills.",
        "outdated": "List installed skills that changed at their origin.",
        "update": "Update installed skills, after a review.",
        "remove": "Remove installed skills.",
        "verify": "Compare installed skills with the lock.",
        "call": "Call a skill and print its output.",
        "doctor": "Check this machine for problems.",
    },
    "Registry": {
        "publish": "Publish skills to a registry.",
        "yank": "Yank a published version, or undo it.",
        "deprecate": "Deprecate a package or a version, or undo it.",
        "registry": "Look after namespaces, members, tokens and the audit log.",
    },
    "Publish in other formats": {
        "validate": "Validate Skill Sharing documents.",
        "marketplace": "Import or export a Claude plugin marketplace.",
        "mcp": "Serve skills to an MCP host over standard input and output.",
        "rpc": "Serve the Skills Protocol over standard input and output.",
    },
    "Run skills": {
        "grant": "List, add and revoke permissions for skills to run here.",
        "worker": "Run accepted executions in a separate process.",
        "top": "Show executions and the local network, live.",
        "inbox": "List and complete tasks that wait for a person.",
        "token": "Create, list, rotate and revoke access tokens.",
    },
    "Use skills": {
        "cat": "Print one file of a skill.",
        "diff": "Show what changes between two versions of a skill.",
        "which": "Resolve a reference, and explain the result.",
        "executions": "List, show and cancel executions, and print results.",
        "auth": "Log in to origins, log out, and show logins.",
        "trust": "List and revoke trusted origins.",
    },
    "Local network": {
        "lan": "Show the skills on the local network, live.",
        "share": "Share one skill on the local network, by a QR code.",
        "scene": "List, join and request scenes.",
        "dht": "Find and announce skills in the DHT.",
        "key": "Show, create and certify this agent's key.",
        "ca": "Issue and revoke certificates for agents.",
    },
    "Help": {
        "explain": "Explain an error code or a lint rule.",
        "config": "Show the settings in force, or check those of a server.",
        "completion": "Print a shell completion script.",
    },
}
#: Command → the module that defines it, where that has another name.
_MODULES: Final = {
    "list": "installed", "remove": "installed", "verify": "installed", "outdated": "installed",
    "update": "installed",
    "diff": "add", "cat": "show", "which": "find", "validate": "check", "rpc": "serve",
    "doctor": "config",
    "worker": "serve", "yank": "publish", "deprecate": "publish",
}  # fmt: skip
#: Alias → command.
ALIASES: Final = {
    "install": "add", "i": "add", "search": "find", "rm": "remove", "ls": "list", "upgrade": "update",
}  # fmt: skip
#: Commands that go on until they are ended.
_STAYING: Final = frozenset({"serve", "share", "worker", "mcp", "rpc", "lan", "top", "scene", "dht"})
EXIT_INTERRUPTED: Final = 130
EXIT_SIGNAL: Final = 128  # and the signal's number
_SIGNAL_KEY: Final = f"{__name__}.signal"  # in a context's meta
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
_EXAMPLES_SHOWN: Final = 6  # of a command in its help
#: Each line belongs to the command that it calls.
_EXAMPLES: Final = __file__.removesuffix("main.py") + "examples.txt"


def examples_of(path: str) -> list[str]:
    """Return the examples of a command, such as ``skillwire executions show``, and of the commands below it."""
    with open(_EXAMPLES, encoding="utf-8") as file:  # noqa: PTH123  # importing pathlib takes ten times as long
        return [line for line in file.read().splitlines() if f"{line} ".startswith(f"{path} ")]


def _add_examples(command: click.Command, path: str) -> None:
    """Let the help of a command, and of the commands below it, end with examples."""
    command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples_of(path)[:_EXAMPLES_SHOWN])])
    for name, part in command.commands.items() if isinstance(command, click.Group) else ():
        _add_examples(part, f"{path} {name}")


class LazyGroup(click.Group):
    """A group that imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names, in the order of the table."""
        return [name for commands in GROUPS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"skillwire.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command", None) or module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command; resolve aliases, and suggest a name for an unknown one."""
        if args[0] == "help":
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        args = [ALIASES.get(args[0].lower(), args[0]), *args[1:]]
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-") and not ctx.resilient_parsing:
            from skillwire.cli.advice import unknown_command  # noqa: PLC0415  # only an error needs it

            raise unknown_command(args[0], self.list_commands(ctx), aliases=ALIASES)
        name, command, rest = super().resolve_command(ctx, args)
        is_help = not {"--help", "-h"}.isdisjoint(rest) or (isinstance(command, click.Group) and not rest)
        if command is not None and is_help:
            _add_examples(command, f"skillwire {name}")
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's
        """Write the groups without importing a command."""
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(commands.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n  skillwire serve skills\n  skillwire add example.com/pdf-forms",
)
@click.version_option(VERSION, "-V", "--version", message="skillwire %(version)s")
@click.option("--debug", is_flag=True, envvar="SKILLWIRE_DEBUG", help="Print a stack trace with an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:  # noqa: ARG001  # read by run() from the context
    """Publish a folder of skills once; find, verify, install and call skills everywhere."""
    if context.invoked_subcommand != "serve":  # which has a way of its own to end
        context.with_resource(_ended_by_signals(context))


class _EndedBySignal(BaseException):
    """A signal ends the process; cleanup runs as after Ctrl-C."""


@contextmanager
def _ended_by_signals(context: click.Context) -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the command instead of killing the process; keep the number in the context."""

    def end(number: int, _: FrameType | None) -> None:
        context.meta[_SIGNAL_KEY] = number
        raise _EndedBySignal

    # A signal that is ignored (nohup) stays ignored; only the main thread may set handlers.
    is_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _SIGNALS if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed; the next file that is opened would get its number, and what is printed
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115  # open as long as the process
    if not _STAYING.intersection(arguments[:1]):
        gc.disable()  # a command is over before a search for cycles would pay: 4 % of add, 13 % of a large build
    if shell := os.environ.get("_SKILLWIRE_COMPLETE"):  # the script of a shell asks
        from skillwire.cli.completion import answer  # noqa: PLC0415  # only a shell needs it

        sys.exit(answer(cli, shell, arguments))
    code = run(arguments)
    gc.freeze()  # nor is any of it searched for cycles before the process ends: 7 % of add
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and flush its output; return the exit code."""
    code = _invoke(arguments)
    lost = _write_out()
    return code if lost is None else _print_lost_output(lost)


def _invoke(arguments: list[str]) -> int:
    context = None
    try:
        with cli.make_context("skillwire", list(arguments), terminal_width=help_width()) as context:
            cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_end("interrupted")
        return EXIT_INTERRUPTED
    except (_EndedBySignal, Exception) as error:  # noqa: BLE001  # every error is printed, and decides the exit code
        # Python makes a RuntimeError of what a signal raises inside a class's body (__set_name__), as in an import.
        if context is not None and (number := context.meta.get(_SIGNAL_KEY)):
            print_end("stopped by a signal")
            return EXIT_SIGNAL + int(number)
        if context is not None and context.params.get("debug"):
            import traceback  # noqa: PLC0415  # only --debug needs it

            traceback.print_exception(error)
        started = context.obj if context is not None else None  # None if click failed before the command started
        output = started if isinstance(started, Output) else Output(as_json="--json" in arguments)
        return _print_error(error, output)
    return 0


def _write_out() -> OSError | None:
    """Flush standard output; on an error discard the rest and return the error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _print_lost_output(error: OSError) -> int:
    """Report that standard output could not be written; a closed pipe is not an error."""
    if isinstance(error, BrokenPipeError):
        return 0
    message = f"the output cannot be written: {error.strerror or error}"
    lost = StorageError("STORAGE", message, place=SourceLocation("standard output"))
    Output().error(lost.diagnostics())  # never as JSON: nothing more is written there
    return lost.exit_code


def _print_error(error: BaseException, output: Output) -> int:
    if isinstance(error, OSError):
        # Where Python buffers nothing, only the number shows that it was our output: files raise their own errors.
        lost = _write_out() or (error if isinstance(error, BrokenPipeError) or error.errno in _FULL else None)
        if lost is not None:
            return _print_lost_output(lost)
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not output.as_json:
        error.show()
        return error.exit_code
    from skillwire.cli.advice import advised, missing_extra, removed_folder, usage_error  # noqa: PLC0415  # only an error needs it

    error = missing_extra(error) or removed_folder(error) or error
    if isinstance(error, SkillwireError):
        output.error(advised(error))
        return error.exit_code
    if isinstance(error, click.ClickException):
        output.error(usage_error(error).diagnostics())
        return error.exit_code
    internal = SkillwireError("INTERNAL", f"{type(error).__name__}: {error}")
    output.error(internal.diagnostics())
    return internal.exit_code
