"""``skillwire completion``: the script that makes a shell complete commands, options and live names."""

from __future__ import annotations

import sys

import click

from skillwire.cli.completion_scripts import SCRIPTS, script_of
from skillwire.cli.output import Output


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the script that makes SHELL (bash, zsh or fish) complete skillwire.

    Besides commands and options it completes installed skills, what the indexes in the cache publish, agents,
    settings and codes. Pressing Tab never asks the network. The first lines of the script say how to install it.
    """
    click.echo(script_of(shell))
    if sys.stdout.isatty():
        Output().hint("to install it:", SCRIPTS[shell][0])
