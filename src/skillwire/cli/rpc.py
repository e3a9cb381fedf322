"""``skillwire rpc``: folders of skills for a program that speaks JSON-RPC over standard input and output."""

from __future__ import annotations

from dataclasses import replace

import click


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--execute", is_flag=True, help="Let execute_skill run what was granted; see skillwire grant.")
@click.option("--grant-all", is_flag=True, help="Run every skill in these folders as it is, with --execute.")
@click.option("--run-code", is_flag=True, help="Let run_code run whatever code it is given, in the sandbox.")
@click.option("--config", metavar="FILE", type=click.Path(), help="What is run, and how: a server's TOML file.")
@click.option("--publisher", default="local", show_default=True, metavar="NAME", help="Whose skills these are.")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Of logs.")
def command(
    *,
    folders: tuple[str, ...],
    execute: bool,
    grant_all: bool,
    run_code: bool,
    config: str | None,
    publisher: str,
    log_format: str,
) -> None:
    """Answer the Skills Protocol on standard input and output, for the program that starts this command.

    Each line of its input is a request of JSON-RPC 2.0, or a batch, and each line of its output an answer; logs go to
    standard error. It ends with its input. The same is answered over HTTP at /rpc of skillwire serve.
    """
    from skillwire.cli.execution_options import read_server_configuration  # noqa: PLC0415  # takes a while to import
    from skillwire.server.compose import make_components  # noqa: PLC0415  # same
    from skillwire.server.log import configure_logging  # noqa: PLC0415  # same
    from skillwire.server.stdio import run_local, serve_stdio  # noqa: PLC0415  # not needed at start-up

    configure_logging(log_format)
    configuration = read_server_configuration(config, grant_all=grant_all, workers=None)
    runs = configuration.runs
    runs = replace(runs, execute_skill=execute or runs.execute_skill, run_code=run_code or runs.run_code)
    configuration = replace(configuration, runs=runs)
    parts = make_components(folders, publisher=publisher, access_log=False, configuration=configuration, is_local=True)
    run_local(serve_stdio(parts))
