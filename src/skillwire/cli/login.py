"""``skillwire login``: store a credential for an origin, after finding out what it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.output import output_options

if TYPE_CHECKING:
    from skillwire.cli.output import Output


@click.command()
@click.argument("origin", metavar="[ORIGIN]", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the logins; so does login without an origin.")
@click.option(
    "--flow",
    type=click.Choice(["auto", "code", "device", "client-credentials"]),
    default="auto",
    help="How to log in with OAuth 2.0: in the browser, on another device, or as a program.",
)
@click.option("--client-id", metavar="ID", help="How the authorization server knows you or your program.")
@click.option("--scope", metavar="SCOPE", multiple=True, help="What to ask for; all that the origin lists by itself.")
@click.option("--issuer", metavar="URL", help="The authorization server, when the origin does not say.")
@click.option("--no-browser", is_flag=True, help="Show the address and open nothing.")
@click.option("--header", metavar="NAME", help="The header field of an API key, when the origin does not say.")
@click.option("--key-id", metavar="ID", help="Which key it is, for an origin that wants signed requests.")
@click.option("--token-stdin", is_flag=True, help="Read an API key or token from standard input.")
@click.option("--api-key-env", metavar="NAME", help="Read it from this environment variable.")
@click.option("--client-secret-stdin", is_flag=True, help="Read the client's secret from standard input.")
@click.option("--client-secret-env", metavar="NAME", help="Read it from this environment variable.")
@click.option("-y", "--yes", is_flag=True, help="Agree to log in at the host that the origin names.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked for, contacted and stored; store nothing.")
@output_options
def command(*, output: Output, origin: str | None, as_list: bool, **options: object) -> None:
    """Log in to an origin, and store the credential.

    The origin says what it wants: an API key, which is asked for, or a login with OAuth 2.0, in the browser or on
    another device. The credential is sent to this origin only. Tokens are renewed by themselves as long as the server
    allows.
    """
    if origin is None or as_list:
        from skillwire.cli.logins import list_logins  # noqa: PLC0415  # --help does without

        list_logins(output)
    else:
        from skillwire.cli.login_steps import LoginOptions, log_in  # noqa: PLC0415  # as above

        log_in(origin, LoginOptions(**options), output)  # type: ignore[arg-type]  # as click has read them
