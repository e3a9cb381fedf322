"""The entry point ``skillwire``: a table of commands, each imported only when it is called.

The table holds the one-line help too, so ``--help`` imports no command. Whatever a command raises ends
here as a message with code, cause, place and fix, and an exit code that scripts can tell apart
(``docs/reference/exit-codes.md``); a stack trace is shown before it with ``--debug`` alone.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.output import Output, help_width, print_end
from skillwire.errors import SkillwireError, SourceLocation, StorageError
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: Section → command → one line of help. The module of a command is ``skillwire.cli.<command>``.
SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Publish": {
        "init": "Make a new skill that passes check.",
        "check": "Report everything wrong with skills, a site or an index.",
        "validate": "Report everything wrong with documents of Skill Sharing.",
        "build": "Write a folder of skills as a static site.",
        "serve": "Serve folders of skills over HTTP, live.",
        "marketplace": "Take skills from a marketplace of Claude, or make one of yours.",
        "mcp": "Serve folders of skills to an MCP host, on standard input and output.",
        "rpc": "Answer the Skills Protocol on standard input and output.",
        "work": "Run what a server accepted, in a process of its own.",
        "token": "Make, list, replace and take back the tokens of a server.",
        "grant": "Agree that the code of skills is run here.",
        "grants": "List what may be run here, and take it back.",
        "inbox": "List the tasks that wait for a person, and work on them.",
        "ca": "Certify agents of the local network, and take it back.",
        "key": "Show and make the key of this agent of the local network.",
    },
    "Use": {
        "find": "Search for skills.",
        "lan": "Show who offers skills on the local network, live.",
        "show": "Look at a skill before loading it.",
        "cat": "Print one file of a skill.",
        "call": "Call a skill, and wait for what it gives.",
        "status": "Say how far a call is.",
        "result": "Wait for a call, and print what it gave.",
        "cancel": "Take a call back.",
        "scene": "List, join and request the scenes of the local network.",
        "add": "Install skills, verified and locked.",
        "list": "List installed skills.",
        "remove": "Remove installed skills.",
        "update": "Bring installed skills up to date.",
        "outdated": "Say which installed skills have changed at their origin.",
        "verify": "Compare installed skills with the lock.",
        "login": "Log in to an origin, and store the credential.",
        "logout": "Revoke and forget the credential of an origin.",
        "origins": "List whom you agreed to install from, and take it back.",
    },
    "Understand": {
        "doctor": "Look for what is wrong here, and say how to mend it.",
        "explain": "Say what an error code or a lint rule means, and what to do.",
        "which": "Say which skill a reference means, and why that one.",
        "config": "Show the settings in force, and where each comes from.",
        "completion": "Print the script that completes in bash, zsh or fish.",
    },
}
#: Commands that go on until they are ended.
_STAYING: Final = frozenset({"serve", "work", "mcp", "rpc", "lan", "scene"})
EXIT_INTERRUPTED: Final = 130
EXIT_INTERNAL: Final = 70
EXIT_SIGNAL: Final = 128  # and the signal's number
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the names, in the order of the table."""
        return [name for commands in SECTIONS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"skillwire.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; for one that does not exist, say which was probably meant."""
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-") and not ctx.resilient_parsing:
            from skillwire.cli.advice import unknown_command  # noqa: PLC0415  # only an error needs it

            raise unknown_command(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's
        """Write the sections without importing a command."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="skillwire %(version)s")
@click.option("--debug", is_flag=True, envvar="SKILLWIRE_DEBUG", help="Show a stack trace with an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:  # noqa: ARG001  # read by run() from the context
    """Publish a folder of skills once; find, verify, install and call skills everywhere."""
    if context.invoked_subcommand != "serve":  # which has a way of its own to end
        context.with_resource(_ended_by_signals())


class _EndedBySignal(BaseException):
    """A signal asks the process to end: what was begun is undone on the way out, as after Ctrl-C."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the command, where they would end the process at once."""

    def end(number: int, _: FrameType | None) -> None:
        raise _EndedBySignal(number)

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
    if not _STAYING.intersection(arguments[:1]):
        gc.disable()  # a command is over before a search for cycles would pay: 4 % of add, 13 % of a large build
    if shell := os.environ.get("_SKILLWIRE_COMPLETE"):  # the script of a shell asks
        from skillwire.cli.complete import answer  # noqa: PLC0415  # and nobody else needs it

        sys.exit(answer(cli, shell, arguments))
    code = run(arguments)
    gc.freeze()  # nor is any of it searched for cycles before the process ends: 7 % of add
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code. What it printed has left this process then."""
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
    except _EndedBySignal as ended:
        print_end("ended by a signal")
        return EXIT_SIGNAL + int(ended.args[0])
    except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and decides the exit code
        if context is not None and context.params.get("debug"):
            _print_stack(error)
        output = Output(as_json="--json" in arguments) if context is None else _output(context, arguments)
        return _print_error(error, output, arguments)
    return 0


def _print_stack(error: Exception) -> None:
    import traceback  # noqa: PLC0415  # only --debug needs it

    traceback.print_exception(error)


def _output(context: click.Context, arguments: list[str]) -> Output:
    """Return the command's voice; one in the form that was asked for when click refused before there was one."""
    return context.obj if isinstance(context.obj, Output) else Output(as_json="--json" in arguments)


def _write_out() -> OSError | None:
    """Write what standard output still holds; return what is in the way, and drop the rest then."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None


def _print_lost_output(error: OSError) -> int:
    """Say that the result could not be written; that its reader has gone is no error."""
    if isinstance(error, BrokenPipeError):
        return 0
    message = f"the result cannot be written: {error.strerror or error}"
    told = StorageError("STORAGE", message, place=SourceLocation("standard output"))
    Output().error(told.diagnostics())  # never as JSON: nothing more is written there
    return told.exit_code


def _print_error(error: Exception, output: Output, arguments: list[str]) -> int:
    if isinstance(error, OSError):
        # Where Python buffers nothing, only the number tells that it was our output: files say their own errors.
        lost = _write_out() or (error if isinstance(error, BrokenPipeError) or error.errno in _FULL else None)
        if lost is not None:
            return _print_lost_output(lost)
    if isinstance(error, SkillwireError):
        from skillwire.cli.advice import advised  # noqa: PLC0415  # only an error needs it

        output.error(advised(error, arguments))
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not output.as_json:
        error.show()
        return error.exit_code
    if isinstance(error, click.ClickException):
        from skillwire.cli.advice import usage_error  # noqa: PLC0415  # only an error needs it

        output.error(usage_error(error).diagnostics())
        return error.exit_code
    message = f"{type(error).__name__}: {error}"
    output.error(SkillwireError("INTERNAL", message).diagnostics())
    return EXIT_INTERNAL
