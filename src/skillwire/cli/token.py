"""``skillwire token``: tokens that give clients access to non-public skills of a server.

The secret is printed once, alone on standard output: ``KEY=$(skillwire token create NAME)``; all other text goes to
standard error. Tokens are stored in the state directory; a running server sees each change with the next request.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from skillwire.cli.options import (
    CommandGroup,
    Duration,
    chosen_stores,
    dry_run_option,
    in_words,
    run_async,
    store_option,
    utc_time,
)
from skillwire.cli.output import Output, Styled, bold, dim, failure, output_options, success, warning
from skillwire.errors import NotFoundError
from skillwire.model.access import EVERY_SKILL, Token
from skillwire.registry.accounts import Accounts
from skillwire.registry.tokens import Tokens, check_form, read_scopes

if TYPE_CHECKING:
    from skillwire.cli.documents_run import TokenObject


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list, rotate and revoke access tokens of a server.

    Tokens are stored in the state directory, so run this as the user who runs the server.
    """


@command.command()
@click.argument("name")
@click.option(
    "--skill",
    "skills",
    metavar="NAME",
    multiple=True,
    help="Skill that the token gives access to, now or later; NAMESPACE/NAME for a package, '*' for all.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="Additional scope: operator or tasks; skill:NAME equals --skill NAME.",
)
@click.option(
    "--expires", metavar="DURATION", type=Duration(), help="Lifetime, such as 90d or 12h; unlimited by default."
)
@click.option("--signing", is_flag=True, help="Create a key for signing requests instead of an API key.")
@dry_run_option
@store_option
@output_options
def create(
    *,
    output: Output,
    name: str,
    skills: tuple[str, ...],
    scopes: tuple[str, ...],
    expires: float | None,
    signing: bool,
    dry_run: bool,
) -> None:
    """Create a token for NAME, and print its secret once."""
    kind: Any = "signing_key" if signing else "api_key"
    opened, scopes = read_scopes(scopes)
    skills = (*skills, *opened)
    check_form(name, skills, scopes, expires)
    if dry_run:
        now = time.time()
        ends = None if expires is None else now + expires
        _print_new(output, Token("", name, kind, frozenset(skills), frozenset(scopes), now, ends), None)
        return
    if named := sorted(set(skills) - {EVERY_SKILL}):
        output.note(dim(f"it opens published skills with exactly the name {' or '.join(named)}"))
    issued = run_async(
        chosen_stores().tokens().issue(name, skills=skills, scopes=scopes, expires_in=expires, kind=kind)
    )
    _print_new(output, issued.token, issued.secret)


@command.command(name="list")
@store_option
@output_options
def list_(*, output: Output) -> None:
    """List every token: ID, name, state and access, never a secret."""
    stored = _open_tokens()
    tokens = run_async(stored.all()) if stored else ()
    now = time.time()
    output.document({"schema": "skillwire/tokens/1", "tokens": [_object(token, now) for token in tokens]})
    output.table(
        [bold(token.token_id), token.name, _state(token, now), dim(_kind(token)), _rights(token)] for token in tokens
    )
    if not tokens:
        output.note("there are no tokens; create one: skillwire token create NAME --skill SKILL")


@command.command()
@click.argument("token_id", metavar="ID")
@dry_run_option
@store_option
@output_options
def revoke(*, output: Output, token_id: str, dry_run: bool) -> None:
    """Revoke a token, immediately and permanently."""
    tokens = _tokens_with(token_id)
    token = run_async(tokens.look_up(token_id) if dry_run else _accounts().revoke_here(token_id))
    _document(output, token, dry_run=dry_run)
    output.line(success("would revoke " if dry_run else "revoked "), bold(token_id), f"  {token.name}")


@command.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--overlap",
    metavar="DURATION",
    type=Duration(),
    default="24h",
    show_default=True,
    help="How long the old token remains valid.",
)
@dry_run_option
@store_option
@output_options
def rotate(*, output: Output, token_id: str, overlap: float, dry_run: bool) -> None:
    """Create a successor with the same rights, and print its secret; the old token expires after the overlap."""
    tokens = _tokens_with(token_id)
    if dry_run:
        old = run_async(tokens.look_up_good(token_id))
        _print_new(output, old._replace(token_id=""), None, replaced=old)
        return
    issued = run_async(_accounts().rotate_here(token_id, overlap=overlap))
    _print_new(output, issued.token, issued.secret, replaced=run_async(tokens.look_up(token_id)))


def _open_tokens() -> Tokens | None:
    """Return the stored tokens, without creating a database; None if there is none."""
    stores = chosen_stores()
    return stores.tokens() if stores.exists else None


def _accounts() -> Accounts:
    """Return the accounts of a registry here, whose audit log has the changes of their tokens."""
    stores = chosen_stores()
    return Accounts(stores.packages, stores.tokens, time.time)


def _tokens_with(token_id: str) -> Tokens:
    tokens = _open_tokens()
    if tokens is None:
        raise NotFoundError("TOKEN_NOT_FOUND", f"there is no token {ascii(token_id)[:60]}")
    return tokens


def _print_new(output: Output, token: Token, secret: str | None, *, replaced: Token | None = None) -> None:
    """Print a new token and its secret, or the token that would be created."""
    now = time.time()
    _document(output, token, secret=secret, replaced=replaced, dry_run=secret is None)
    made, article = success("made " if secret else "would make "), "a" if token.kind == "signing_key" else "an"
    what = bold(token.token_id) if secret else f"{article} {_kind(token)}"
    output.note(made, what, f" for {token.name}, ", _state(token, now), f": {_rights(token)}")
    if replaced is not None:
        ends = "" if secret is None else f", {_state(replaced, now).text}"
        output.note(dim(f"in place of {replaced.token_id}{ends}"))
    if secret is not None:
        output.note(warning("its secret is shown only once:"))
        output.verbatim(secret)


def _document(
    output: Output, token: Token, *, dry_run: bool, secret: str | None = None, replaced: Token | None = None
) -> None:
    now = time.time()
    replaces = None if replaced is None else _object(replaced, now)
    shown = _object(token, now)
    output.document(
        {"schema": "skillwire/token/1", "dry_run": dry_run, "token": shown, "secret": secret, "replaces": replaces}
    )


def _object(token: Token, now: float) -> TokenObject:
    return {
        "id": token.token_id or None,
        "name": token.name,
        "kind": token.kind,
        "state": token.state_at(now),
        "skills": sorted(token.skills),
        "scopes": sorted(token.scopes),
        "created_at": utc_time(token.created),
        "expires_at": None if token.expires is None else utc_time(token.expires),
        "revoked_at": None if token.revoked is None else utc_time(token.revoked),
    }


def _state(token: Token, now: float) -> Styled:
    state = token.state_at(now)
    if state != "good":
        return failure(state)
    return success("never expires") if token.expires is None else warning(f"ends in {in_words(token.expires - now)}")


def _kind(token: Token) -> str:
    return "API key" if token.kind == "api_key" else "signing key"


def _rights(token: Token) -> str:
    names = "every skill" if EVERY_SKILL in token.skills else ", ".join(sorted(token.skills)) or "no skill"
    allowed = f"; allows {' '.join(sorted(token.scopes))}" if token.scopes else ""
    return f"opens {names}{allowed}"
