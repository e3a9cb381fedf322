"""``skillwire registry``: namespaces, members, tokens and the audit log of a registry."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skillwire.adapters.files.atomic import state_directory
from skillwire.cli.options import (
    CommandGroup,
    Duration,
    chosen_stores,
    combine,
    confirm,
    open_client,
    plural,
    run_async,
    store_option,
    utc_time,
)
from skillwire.cli.output import Output, Part, bold, dim, output_options, success, warning
from skillwire.cli.publish import print_state, registry_option
from skillwire.errors import TrustError, UsageError, ValidationError
from skillwire.model.package import read_reference
from skillwire.registry.accounts import Accounts, Actor
from skillwire.registry.audit import read_entries, verify_entries

if TYPE_CHECKING:
    from skillwire.cli.documents_run import RegistryAnswer
    from skillwire.client.registry import RemoteRegistry
    from skillwire.server.routes import registry_messages as messages
else:

    class _Messages:
        """The types of a registry's answers, imported with the first answer."""

        def __getattr__(self, name: str) -> type:
            from skillwire.server.routes import registry_messages  # noqa: PLC0415  # msgspec, which --help needs not

            return getattr(registry_messages, name)

    messages = _Messages()

T = TypeVar("T")
A = TypeVar("A", bound="RegistryAnswer")

remote_options = combine(registry_option, output_options)
#: The details of a change that a line of the audit log shows; --json has all.
_AUDIT_DETAILS: Final = (
    "to", "account", "role", "may_read", "access", "kind", "domain", "successor", "reason", "id", "replaces",
    "operator", "scopes", "on", "in_quarantine",
)  # fmt: skip
_AUDIT_ENTRIES: Final = 1_000_000  # shown at most: each takes some hundred bytes
ROLES = click.Choice(["owner", "maintainer", "publisher", "reader"])


@click.group(cls=CommandGroup)
def command() -> None:
    """Look after a registry: namespaces, members, tokens, states and the audit log.

    A registry is started with skillwire serve --registry. init, export and import work on the one of this machine,
    all other commands over the network.
    """


@command.command()
@click.argument("account")
@click.option("--new-token", is_flag=True, help="Issue a new token to ACCOUNT, which is an operator already.")
@store_option
@output_options
def init(*, output: Output, account: str, new_token: bool) -> None:
    """Make ACCOUNT the first operator of the registry on this machine, and print its token once.

    Run this as the user who runs the server. An operator makes others: registry account operator.
    With --new-token an operator gets in again, such as after an import without server.key.
    """
    stores = chosen_stores()
    accounts = Accounts(stores.packages, stores.tokens, time.time)
    issued = run_async((accounts.issue_to_operator if new_token else accounts.make_first_operator)(Actor(account)))
    output.document({"schema": "skillwire/registry-init/1", "account": account, "secret": issued.secret})
    done = " has a new token; " if new_token else " is the operator; "
    output.note("state directory: ", str(state_directory()))
    output.note(bold(account), done, warning("the token is shown only once:"))
    output.verbatim(issued.secret)


@command.command()
@remote_options
def whoami(*, output: Output, registry: str) -> None:
    """Show the account of your token, and its roles."""
    answer = _ask(output, registry, messages.CallerAccount, "GET /whoami")
    roles = ", ".join(f"{role} of {name}" for name, role in answer.namespaces.items())
    what = "operator" if answer.operator else roles or "no role in a namespace"
    output.line(bold(answer.account), dim(f"  {what}; token allows {' '.join(answer.scopes)}"))


@command.group(cls=CommandGroup)
def namespace() -> None:
    """Create, list, prove and rename namespaces."""


@namespace.command(name="create")
@click.argument("name")
@remote_options
def create_namespace(*, output: Output, name: str, registry: str) -> None:
    """Create the namespace NAME, which you own."""
    _ask(output, registry, messages.NamespaceObject, "POST /namespaces", {"name": name})
    output.line(success("created "), bold(name))


@namespace.command(name="list")
@remote_options
def list_namespaces(*, output: Output, registry: str) -> None:
    """List the namespaces, with how each owner is proven."""
    rows = _rows(output, registry, messages.NamespaceObject, "/namespaces", "namespaces")
    output.document({"schema": "skillwire/registry/1", "answer": {"namespaces": rows}})
    output.table([bold(row.name), _proof(row.proof)] for row in rows)
    if not rows:
        output.note("there are no namespaces; create one: skillwire registry namespace create NAME")


@namespace.command(name="prove")
@click.argument("name")
@click.option("--dns", metavar="DOMAIN", help="Read the TXT record _skillwire.DOMAIN.")
@click.option("--file", metavar="DOMAIN", help="Read https://DOMAIN/.well-known/skillwire-namespace.")
@click.option("--vouch", is_flag=True, help="Vouch for the owner, as an operator.")
@remote_options
def prove_namespace(
    *, output: Output, name: str, dns: str | None, file: str | None, vouch: bool, registry: str
) -> None:
    """Prove who owns the namespace NAME.

    The TXT record is skillwire-namespace=NAME; the file holds NAME alone.
    """
    chosen = [(kind, domain) for kind, domain in (("dns", dns), ("file", file)) if domain]
    if len(chosen) + vouch != 1:
        raise UsageError("USAGE", "name one proof", fix="Pass --dns DOMAIN, --file DOMAIN or --vouch.")
    kind, domain = chosen[0] if chosen else ("operator", "")
    proof = {"kind": kind, "domain": domain}
    answer = _ask(output, registry, messages.NamespaceObject, f"POST /namespaces/{name}/proof", proof)
    output.line(success("proven "), bold(name), "  ", _proof(answer.proof))


@namespace.command(name="rename")
@click.argument("name")
@click.argument("to")
@remote_options
def rename_namespace(*, output: Output, name: str, to: str, registry: str) -> None:
    """Rename the namespace NAME; the old name redirects for good."""
    _ask(output, registry, messages.NamespaceObject, f"POST /namespaces/{name}/rename", {"to": to})
    output.line(success("renamed "), bold(name), " to ", bold(to))


@command.group(cls=CommandGroup)
def member() -> None:
    """List, add and remove members of a namespace."""


@member.command(name="list")
@click.argument("namespace_", metavar="NAMESPACE")
@remote_options
def list_members(*, output: Output, namespace_: str, registry: str) -> None:
    """List the members of NAMESPACE."""
    answer = _ask(output, registry, messages.NamespaceDetails, f"GET /namespaces/{namespace_}")
    if not answer.members:
        message = f"only members of {namespace_} see its members"
        fix = f"Log in as a member, or ask an owner to run: skillwire registry member add {namespace_} ACCOUNT reader"
        raise TrustError("PERMISSION_DENIED", message, fix=fix)
    output.table([bold(account), role] for account, role in answer.members.items())


@member.command(name="add")
@click.argument("namespace_", metavar="NAMESPACE")
@click.argument("account")
@click.argument("role", type=ROLES)
@remote_options
def add_member(*, output: Output, namespace_: str, account: str, role: str, registry: str) -> None:
    """Give ACCOUNT a ROLE in NAMESPACE, in place of the one it has."""
    _ask(output, registry, messages.Done, f"PUT /namespaces/{namespace_}/members/{account}", {"role": role})
    output.line(success("added "), bold(account), f" as {role} of {namespace_}")


@member.command(name="remove")
@click.argument("namespace_", metavar="NAMESPACE")
@click.argument("account")
@remote_options
def remove_member(*, output: Output, namespace_: str, account: str, registry: str) -> None:
    """Take the role of ACCOUNT in NAMESPACE away."""
    _ask(output, registry, messages.Done, f"DELETE /namespaces/{namespace_}/members/{account}")
    output.line(success("removed "), bold(account), f" from {namespace_}")


@command.group(cls=CommandGroup)
def token() -> None:
    """Create, list and revoke tokens of accounts."""


@token.command(name="create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="read, publish, admin, or namespace:NAME to limit it; publish by default.",
)
@click.option("--expires", metavar="DURATION", type=Duration(), help="Lifetime, such as 90d; by default your token's.")
@click.option("--account", metavar="ACCOUNT", help="Account that it acts for, made if there is none; operators only.")
@remote_options
def create_token(
    *,
    output: Output,
    name: str,
    scopes: tuple[str, ...],
    expires: float | None,
    account: str | None,
    registry: str,
) -> None:
    """Create a token called NAME, and print its secret once."""
    wanted = {"expires_in": expires, "account": account}
    document: dict[str, object] = {"name": name, "scopes": list(scopes or ("publish",))}
    document |= {key: value for key, value in wanted.items() if value is not None}
    answer = _ask(output, registry, messages.IssuedToken, "POST /tokens", document)
    for one in answer.warnings:
        output.note(warning(f"note: {one}"))
    output.note(success("created "), bold(answer.id), "; ", warning("its secret is shown only once:"))
    output.verbatim(answer.token)


@token.command(name="list")
@remote_options
def list_tokens(*, output: Output, registry: str) -> None:
    """List the tokens that yours may revoke, or itself: never a secret."""
    rows = _rows(output, registry, messages.TokenObject, "/tokens", "tokens")
    output.document({"schema": "skillwire/registry/1", "answer": {"tokens": rows}})
    output.table(
        [
            bold(row.id),
            row.account,
            row.name,
            dim(" ".join(row.scopes)),
            warning("revoked") if row.revoked else f"last used {_when(row.used, 'never')}",
            f"expires {_when(row.expires)}" if row.expires else "never expires",
        ]
        for row in rows
    )


@token.command(name="revoke")
@click.argument("token_id", metavar="ID")
@remote_options
def revoke_token(*, output: Output, token_id: str, registry: str) -> None:
    """Revoke a token, immediately and permanently."""
    _ask(output, registry, messages.Done, f"DELETE /tokens/{token_id}")
    output.line(success("revoked "), bold(token_id))


@command.group(cls=CommandGroup)
def account() -> None:
    """List and close accounts, make operators, link people; operators only."""


@account.command(name="list")
@remote_options
def list_accounts(*, output: Output, registry: str) -> None:
    """List the accounts: who is an operator, and who signs in."""
    rows = _rows(output, registry, messages.AccountObject, "/accounts", "accounts")
    output.document({"schema": "skillwire/registry/1", "answer": {"accounts": rows}})
    output.table(
        [
            bold(row.account),
            "operator" if row.operator else "",
            f"{row.subject} at {row.issuer}" if row.issuer else "",
            dim(f"since {_when(row.created)}"),
        ]
        for row in rows
    )


@account.command(name="operator")
@click.argument("name", metavar="ACCOUNT")
@click.option("--undo", is_flag=True, help="Take the right away.")
@remote_options
def set_operator(*, output: Output, name: str, undo: bool, registry: str) -> None:
    """Make ACCOUNT an operator."""
    _ask(output, registry, messages.Done, f"PATCH /accounts/{name}", {"operator": not undo})
    output.line(bold(name), f" is {'no longer ' if undo else ''}an operator")


@account.command(name="close")
@click.argument("name", metavar="ACCOUNT")
@click.option("-y", "--yes", is_flag=True, help="Close without asking.")
@remote_options
def close_account(*, output: Output, name: str, yes: bool, registry: str) -> None:
    """Revoke all tokens of ACCOUNT, and end sign-ins to it.

    It is no operator then; its roles stay. A new token or link opens it again.
    """
    if not yes and not confirm(f"Revoke all tokens of {name}?"):
        raise UsageError("USAGE", f"{name} was not closed", fix="Confirm it, or pass --yes.")
    _ask(output, registry, messages.Done, f"DELETE /accounts/{name}")
    output.line(success("closed "), bold(name))


@account.command(name="link")
@click.argument("name", metavar="ACCOUNT")
@click.option("--issuer", metavar="URL", default="", help="Issuer, as the server's configuration has it.")
@click.option("--subject", metavar="SUB", default="", help="Subject of the person there.")
@click.option("--undo", is_flag=True, help="Let no person sign in as the account any more.")
@remote_options
def link_account(*, output: Output, name: str, issuer: str, subject: str, undo: bool, registry: str) -> None:
    """Let a person sign in as ACCOUNT."""
    if bool(issuer and subject) is undo or bool(issuer) is not bool(subject):
        raise UsageError("USAGE", "name issuer and subject, or pass --undo")
    identity = {"issuer": issuer, "subject": subject}
    _ask(output, registry, messages.Done, f"PUT /accounts/{name}/identity", identity)
    output.line(success("unlinked " if undo else "linked "), bold(name))


@command.command(name="access")
@click.argument("reference", metavar="NAMESPACE/NAME")
@click.argument("level", type=click.Choice(["public", "restricted", "private"]))
@remote_options
def set_access(*, output: Output, reference: str, level: str, registry: str) -> None:
    """Set how far a package is visible."""
    _ask(output, registry, messages.PackageObject, f"PATCH {_package(reference)}", {"access": level})
    output.line(bold(reference), f" is {level}")


@command.command(name="share")
@click.argument("reference", metavar="NAMESPACE/NAME")
@click.argument("account")
@click.option("--undo", is_flag=True, help="Let the account read it no longer.")
@remote_options
def share(*, output: Output, reference: str, account: str, undo: bool, registry: str) -> None:
    """Let ACCOUNT read a package that is not public."""
    _ask(output, registry, messages.Done, f"{'DELETE' if undo else 'PUT'} {_package(reference)}/readers/{account}")
    output.line(bold(account), f" {'no longer reads' if undo else 'may read'} ", bold(reference))


@command.command(name="rename")
@click.argument("reference", metavar="NAMESPACE/NAME")
@click.argument("to", metavar="NAMESPACE/NAME")
@remote_options
def rename_package(*, output: Output, reference: str, to: str, registry: str) -> None:
    """Let a package redirect for good to the one that you published under its new name."""
    _ask(output, registry, messages.PackageObject, f"PATCH {_package(reference)}", {"renamed_to": to})
    output.line(success("renamed "), bold(reference), " to ", bold(to))


@command.command(name="status")
@click.argument("reference", metavar="NAMESPACE/NAME[@VERSION]")
@click.argument("status", type=click.Choice(["active", "archived", "quarantined", "deleted"]))
@click.option("--reason", metavar="TEXT", default="", help="Why, in one line.")
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@remote_options
def set_status(*, output: Output, reference: str, status: str, reason: str, yes: bool, registry: str) -> None:
    """Archive, quarantine or delete a package, or make it active again.

    A deleted package stays deleted, and its name taken. Quarantine is for operators; it may also name a version.
    """
    if "@" in reference and status in {"archived", "deleted"}:
        fix = "Name the package alone, or yank, deprecate or quarantine the version."
        raise UsageError("USAGE", f"a version cannot be {status}, only its package", fix=fix)
    if status == "deleted" and not yes and not confirm(f"Delete {reference} for good?"):
        raise UsageError("USAGE", f"{reference} was not deleted", fix="Confirm it, or pass --yes.")
    with open_client(output) as client:
        answer = client.registry(registry).set_state(reference, status, reason=reason)
    copies, more = answer.get("copies"), answer.get("more_copies") is True
    print_state(output, reference, status, reason, copies=copies if isinstance(copies, list) else (), more=more)


@command.command()
@click.option("--verify", is_flag=True, help="Check that no entry was changed, removed or inserted.")
@click.option("--expect", metavar="DIGEST", help="With --verify: an earlier last digest, which must still be there.")
@click.option("--most", type=click.IntRange(1), metavar="NUMBER", help="Show only the newest NUMBER entries.")
@remote_options
def audit(*, output: Output, verify: bool, expect: str | None, most: int | None, registry: str) -> None:
    """Show every change of the registry, oldest first: when, who, what, from where, in which request.

    Operators see all of it, owners of namespaces the changes there; only an operator can verify it.
    """
    if (most and verify) or (expect and not verify):
        fix = "Leave --most out with --verify, which checks all entries; --expect needs --verify."
        raise UsageError("USAGE", "these options do not go together", fix=fix)
    number, kept, last = 0, deque[dict[str, Any]](maxlen=0 if verify else most or _AUDIT_ENTRIES), None
    is_expected = False
    with open_client(output) as client:
        remote = client.registry(registry)
        if verify and not remote.request("GET", "/whoami").get("operator"):
            raise TrustError("PERMISSION_DENIED", "verifying needs the whole audit log, which only operators see")
        for rows in _audit_pages(remote):
            number += len(rows)
            kept += rows
            if verify:
                entries = list(read_entries(rows))
                last = verify_entries(entries, last)
                is_expected |= expect in {entry.digest for entry in entries}
    if verify:
        if last is None:
            raise TrustError("AUDIT_BROKEN", "the log is empty, and the registry has an operator")
        if expect and not is_expected:
            message = f"no entry has the digest {ascii(expect)[1:-1][:80]}"
            raise TrustError("AUDIT_BROKEN", message, fix="Check the digest; the newest entries may be cut off.")
        output.document({"schema": "skillwire/registry/1", "answer": {"verified": number, "digest": last.digest}})
        output.line(success("verified "), f"{number:,} entries", dim(f"; the last digest is {last.digest}"))
        return
    if not most and number > len(kept):
        output.note(warning(f"only the newest {len(kept):,} of {number:,} entries are shown"))
    changes = [messages.read_answer(row, messages.AuditEntryObject) for row in kept]
    output.document({"schema": "skillwire/registry/1", "answer": {"entries": changes}})
    output.table(
        [
            dim(_when(one.at)),
            bold(one.account),
            one.action,
            one.target,
            ", ".join(f"{key} {_detail(one.details[key])}" for key in _AUDIT_DETAILS if key in one.details),
            one.address,
            dim(one.request_id),
        ]
        for one in changes
    )


def _audit_pages(remote: RemoteRegistry) -> Iterator[list[dict[str, Any]]]:
    """Give the pages of the audit log. Raises ValidationError (``REGISTRY_ANSWER``) where they do not go on."""
    after = 0
    while True:
        page = remote.request("GET", f"/audit?after={after}")
        yield page["entries"] if isinstance(page.get("entries"), list) else []
        following = page.get("next")
        if following is None:
            return
        if not isinstance(following, int) or following <= after:
            raise ValidationError("REGISTRY_ANSWER", "the pages of the audit log do not go on")
        after = following


@command.command(name="export")
@click.argument("folder", type=click.Path(path_type=Path))
@store_option
@output_options
def export_command(*, output: Output, folder: Path) -> None:
    """Write everything of the registry on this machine into a new FOLDER, also while it is in use.

    It has the hashes of tokens; to keep the tokens valid elsewhere, take server.key of the state directory along.
    """
    _carry(output, folder, is_import=False)


@command.command(name="import")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@store_option
@output_options
def import_command(*, output: Output, folder: Path) -> None:
    """Store the export in FOLDER as the registry on this machine, which has to be empty.

    Every digest and the audit log are verified. What is wrong anywhere stores nothing.
    """
    _carry(output, folder, is_import=True)


@command.command(name="migrate")
@click.option("--to", "target", metavar="URL", default="", help="An empty database of PostgreSQL; or SKILLWIRE_STORE.")
@output_options
def migrate_command(*, output: Output, target: str) -> None:
    """Copy everything of the state directory, executions too, into PostgreSQL.

    Stop the servers of this machine before. Each artifact and table is verified by digest. After an interruption the
    same command continues. Then give each server the same server.key.
    """
    from skillwire.adapters.stores import open_stores  # noqa: PLC0415  # loads msgspec

    stores = open_stores(target)
    if not stores.is_shared:
        raise UsageError("USAGE", "no database is named", fix="Name it: --to postgresql://USER@HOST/DATABASE")
    from skillwire.adapters.postgres.copy import copy_state  # noqa: PLC0415  # an extra

    state = state_directory()
    with output.progress.during("tables") as progress:
        rows = run_async(copy_state(state, stores.postgres, progress.advance))
    _print_carried(output, "copied ", str(state), rows, plural(sum(rows.values()), "row"))


@command.group(cls=CommandGroup)
def blobs() -> None:
    """Where large artifacts are kept: in the shared database, or in a bucket of S3."""


@blobs.command(name="move")
@click.option("--to", "target", type=click.Choice(["s3", "database"]), required=True, help="Where they shall be.")
@store_option
@output_options
def blobs_move(*, output: Output, target: str) -> None:
    """Move large artifacts, each verified, between the shared database and the bucket of SKILLWIRE_ARTIFACTS.

    Servers with this variable read both places, so set it before and keep it meanwhile. The bucket keeps its copies.
    """
    stores = chosen_stores()
    if not stores.is_shared or stores.artifacts is None:
        raise UsageError(
            "USAGE", "no shared database or no bucket is named", fix="Set SKILLWIRE_ARTIFACTS=s3://BUCKET."
        )
    with output.progress.during("artifacts") as progress:
        moving = stores.packages.move_artifacts(to_rows=target == "database", advance=progress.advance)
        number = run_async(moving)
    output.document({"schema": "skillwire/registry-export/1", "folder": target, "rows": {"artifacts": number}})
    output.line(success("moved "), plural(number, "artifact"))


def _carry(output: Output, folder: Path, *, is_import: bool) -> None:
    from skillwire.adapters.sql.registry_export import export_registry, import_registry  # noqa: PLC0415  # loads msgspec

    stores = chosen_stores()
    carry, word = (import_registry, "imported") if is_import else (export_registry, "exported")
    with output.progress.during("artifacts") as progress:
        rows = run_async(carry(stores.database, stores.artifacts, folder, progress.advance))
    _print_carried(output, f"{word} ", str(folder), rows, bold(str(folder)))
    if is_import:
        hint = "run skillwire registry init ACCOUNT --new-token to let an operator in without it"
        output.note(warning("tokens are valid only with the server.key of the exported registry; "), hint)


def _print_carried(output: Output, done: str, folder: str, rows: Mapping[str, int], what: Part) -> None:
    output.document({"schema": "skillwire/registry-export/1", "folder": folder, "rows": dict(rows)})
    output.line(success(done), what, dim(f"  {plural(rows['versions'], 'version')}"))


@command.command()
@remote_options
def stats(*, output: Output, registry: str) -> None:
    """Show how many namespaces, packages, versions and downloads there are."""
    answer = _ask(output, registry, messages.RegistryStatistics, "GET /stats")
    output.table([key, bold(f"{getattr(answer, key):,}")] for key in answer.__struct_fields__)


def _package(reference: str) -> str:
    return read_reference(reference).path


def _ask(output: Output, registry: str, kind: type[A], request: str, document: Mapping[str, object] | None = None) -> A:
    """Send one request, such as ``GET /whoami``, print its answer as the document, and return it."""
    method, _, path = request.partition(" ")
    with open_client(output) as client:
        answer = messages.read_answer(client.registry(registry).request(method, path, document), kind)
    output.document({"schema": "skillwire/registry/1", "answer": answer})
    return answer


def _rows(output: Output, registry: str, kind: type[T], path: str, key: str) -> list[T]:
    with open_client(output) as client:
        return [messages.read_answer(row, kind) for row in client.registry(registry).rows(path, key)]


_LATEST: Final = 1e11  # seconds since the epoch, some thousands of years ahead


def _when(at: float | None, otherwise: str = "?") -> str:
    return utc_time(at) if at is not None and 0 <= at < _LATEST else otherwise


def _detail(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _proof(proof: messages.ProofObject) -> Part:
    return success(f"proven by {proof.domain or proof.kind}") if proof.kind else dim("not proven")
