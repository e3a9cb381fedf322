"""``skillwire work``: run what servers on this machine accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.output import output_options, print_end

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.option(
    "--config", metavar="FILE", type=click.Path(), help="The configuration file of the server that it works for."
)
@click.option("--workers", type=click.IntRange(1, 1000), metavar="NUMBER", help="Executions that run at once.")
@click.option("--grant-all", is_flag=True, help="Run every skill as it is; see skillwire grant.")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Of logs.")
@output_options
def command(*, output: Output, config: str | None, workers: int | None, grant_all: bool, log_format: str) -> None:
    """Run the executions that servers on this machine accepted, until Ctrl-C.

    It works for the servers with the same --config, or for those without one, and shares the work with every other
    process that does: each execution is run by one of them. With skillwire serve --workers 0 a server only accepts, so
    that what skills do never slows its answers down. Skills that are functions of a program are run by that program
    alone.
    """
    from skillwire.cli.execution_options import read_server_configuration  # noqa: PLC0415  # takes a while to import
    from skillwire.server.log import configure_logging  # noqa: PLC0415  # same
    from skillwire.server.run_worker import make_worker, run_worker  # noqa: PLC0415  # same

    configure_logging(log_format)
    configuration = read_server_configuration(config, grant_all=grant_all, workers=workers)
    number = configuration.executions.concurrency

    def ready() -> None:
        output.document("work/1", {"workers": number, "grant_all": configuration.executions.grant_all})
        output.line(f"working, at most {number} executions at once; Ctrl-C ends it")

    run_worker(make_worker(configuration), on_ready=ready)
    if not (output.as_json or output.quiet):
        print_end("stopped")
