"""``skillwire mcp`` and ``skillwire rpc``: serve skills over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import click
from click.core import ParameterSource

from skillwire import limits
from skillwire.adapters.lines import LineWriter, lines_of, take_input
from skillwire.cli.mcp_install import install, uninstall
from skillwire.cli.options import (
    GroupWithDefaultList,
    log_format_option,
    publisher_option,
    server_config_option,
    token_option,
)
from skillwire.cli.serve import configure_server
from skillwire.errors import UsageError

#: What is said about folders that are served here.
_OF_FOLDERS: Final = frozenset({"pins", "execute", "grant_all", "config", "publisher"})


class McpGroup(GroupWithDefaultList):
    """``skillwire mcp FOLDER`` is ``skillwire mcp serve FOLDER``."""

    default, takes_words = "serve", True


@click.group("mcp", cls=McpGroup, commands={"install": install, "uninstall": uninstall})
def mcp_command() -> None:
    """Serve skills to an MCP host, or add them to its configuration. With FOLDER or --server alone it serves."""


@mcp_command.command()
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path())
@click.option("--server", metavar="URL", help="Relay to this endpoint instead, such as https://example.com/mcp.")
@token_option
@click.option("--pin", "pins", multiple=True, metavar="NAME", help="Offer this skill as its own tool; repeatable.")
@click.option("--execute", is_flag=True, help="Let the tools run granted skills; see skillwire grant.")
@click.option("--grant-all", is_flag=True, help="With --execute, run every skill in these folders without a grant.")
@server_config_option
@publisher_option
@log_format_option
def serve(
    *,
    folders: tuple[str, ...],
    server: str | None,
    token: str | None,
    pins: tuple[str, ...],
    execute: bool,
    grant_all: bool,
    config: str | None,
    publisher: str,
    log_format: str,
) -> None:
    """Serve the skills in each FOLDER to the MCP host that starts this command, on standard input and output.

    In the host's configuration, set the command to skillwire and its arguments to mcp FOLDER. The command ends with its
    input. skillwire serve offers the same over HTTP at /mcp; --server connects a host to such an endpoint, with the
    credential stored by skillwire auth login.
    """
    if bool(folders) == (server is not None):
        fix = "Write skillwire mcp FOLDER, or skillwire mcp --server URL."
        raise UsageError("USAGE", "give folders of skills, or the URL of a server", fix=fix)
    if server is not None:
        _check_relayed(click.get_current_context())
        _relay(server, token)
        return
    from skillwire.bridges.mcp import require_sdk  # noqa: PLC0415  # the relay does without

    require_sdk()  # first: its extra has the packages of servers too
    from skillwire.server.stdio import serve_mcp  # noqa: PLC0415  # takes a while to import

    configuration = configure_server(config, log_format, grant_all=grant_all, workers=None)
    if execute:
        configuration = replace(configuration, runs=replace(configuration.runs, execute_skill=True))
    serve_mcp(folders, configuration, pins, publisher=publisher)


def _relay(server: str, token: str | None) -> None:
    """Relay standard input to a server, and its answers to standard output, until the input ends."""
    from skillwire.client.mcp_relay import endpoint_of, run_relay  # noqa: PLC0415  # loads msgspec

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    async def run() -> None:
        await run_relay(endpoint_of(server), token, lines_of(take_input(), limits.RPC_REQUEST_BYTES), write)

    asyncio.run(run())


def _check_relayed(context: click.Context) -> None:
    """Reject options that have no effect on a relay, since the server decides.

    Raises:
        UsageError: ``USAGE``.
    """
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name in _OF_FOLDERS:
            fix = "Leave it out; the server's own configuration decides."
            raise UsageError("USAGE", f"{parameter.opts[0]} applies to folders, and not to --server", fix=fix)


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--execute", is_flag=True, help="Let execute_skill run granted skills; see skillwire grant.")
@click.option("--grant-all", is_flag=True, help="With --execute, run every skill in these folders without a grant.")
@click.option("--run-code", is_flag=True, help="Let run_code run arbitrary code in the sandbox.")
@server_config_option
@publisher_option
@log_format_option
def rpc_command(
    *,
    folders: tuple[str, ...],
    execute: bool,
    grant_all: bool,
    run_code: bool,
    config: str | None,
    publisher: str,
    log_format: str,
) -> None:
    """Serve the Skills Protocol to the program that starts this command, on standard input and output.

    Each input line is a JSON-RPC 2.0 request or a batch, and each output line a response; logs go to standard error.
    The command ends with its input. skillwire serve offers the same over HTTP at /rpc.
    """
    configuration = configure_server(config, log_format, grant_all=grant_all, workers=None)
    runs = configuration.runs
    runs = replace(runs, execute_skill=execute or runs.execute_skill, run_code=run_code or runs.run_code)
    configuration = replace(configuration, runs=runs)
    from skillwire.server.stdio import serve_rpc  # noqa: PLC0415  # takes a while to import

    def write_to(descriptor: int) -> Callable[[bytes], Awaitable[None]]:
        return LineWriter(descriptor).write

    lines = lines_of(0, limits.RPC_REQUEST_BYTES)
    serve_rpc(folders, configuration, lines, write_to, publisher=publisher)
