"""``skillwire ca``: who certifies the agents and skills of a local network, and takes it back.

An authority is a folder: its certificates and the signed list of what was taken back are for everybody, its keys for
their owner alone. ``SKILLWIRE_CA_PASSPHRASE``, of eight characters or more, encrypts them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.options import Duration, Parts, in_words
from skillwire.cli.output import bad, bold, dim, doubtful, good, output_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.adapters.files.authority import AuthorityFolder, IssuedBook, IssuedRow
    from skillwire.cli.output import Output, Styled
    from skillwire.trust.certificates import CertificateRequest

_DAY: Final = 86_400.0
#: Seconds that a certificate is good at least: agents renew in the last third, and clocks differ by minutes.
_SHORTEST: Final = 3600.0
_FOLDER: Final = click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Say what would happen, change nothing.")
_ROOT_KEY: Final = click.option(
    "--root-key",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The root's key, for a SkillCenter CA; root.key in FOLDER unless given.",
)


@click.group(cls=Parts)
def command() -> None:
    """Certify agents and skills of the local network, and take it back.

    An authority is a FOLDER: a root, and below it a SkillCenter CA that issues. Agents trust it when their settings
    name its root.pem and center.pem, in discovery.trust; by revocations.pem they learn what was taken back.

    Set SKILLWIRE_CA_PASSPHRASE, of at least 8 characters, to have the keys encrypted.
    """


@command.command()
@_FOLDER
@click.option("--name", metavar="NAME", default="skillwire", show_default=True, help="Whose authority it is.")
@_DRY_RUN
@output_options
def init(*, output: Output, folder: Path, name: str, dry_run: bool) -> None:
    """Make a root and a SkillCenter CA in FOLDER.

    The keys are readable by nobody else, and encrypted with SKILLWIRE_CA_PASSPHRASE when that is set. The root's is
    needed again only to renew the SkillCenter CA: put root.key away, off this machine.
    """
    from skillwire.adapters.files.authority import (  # noqa: PLC0415  # --help does without
        AuthorityFolder,
        check_new,
        passphrase,  # same
    )

    is_encrypted = passphrase() is not None
    if dry_run:
        check_new(folder)
    else:
        AuthorityFolder.create(folder, name, time.time())
    paths = {name: str(folder / f"{name}.pem") for name in ("root", "center", "revocations")}
    output.document("ca/1", {"dry_run": dry_run, "folder": str(folder), **paths, "encrypted": is_encrypted})
    output.line(good("would make " if dry_run else "made "), bold(f"{name} Root CA"), dim(f"  {folder}"))
    if not dry_run:
        if not is_encrypted:
            output.note(doubtful("the keys are not encrypted; SKILLWIRE_CA_PASSPHRASE would do that"))
        output.hint("put away, off this machine:", str(folder / "root.key"))


@command.command()
@_FOLDER
@click.option("--agent", "agents", metavar="ID", multiple=True, help="An agent that it is for.")
@click.option("--skill", "skills", metavar="ID", multiple=True, help="A skill that it is for, whoever offers it.")
@click.option("--host", "hosts", metavar="HOST", multiple=True, help="An address or name that may be announced.")
@click.option(
    "--request",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What skillwire key new has printed; without it a key is made here.",
)
@click.option("--days", metavar="DURATION", type=Duration(), help="How long it is good, 7d unless said; at least 1h.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FOLDER",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="For agent.pem, and agent.key when the key is made here.",
)
@_DRY_RUN
@output_options
def issue(
    *,
    output: Output,
    folder: Path,
    agents: tuple[str, ...],
    skills: tuple[str, ...],
    hosts: tuple[str, ...],
    request: Path | None,
    days: float | None,
    target: Path,
    dry_run: bool,
) -> None:
    """Issue the certificate of an agent or a skill.

    Whom it is for is what you name, else what the request asks for. It is good for seven days and renewed by itself
    where the settings name renewFrom.
    """
    from skillwire.adapters.files.atomic import write_atomically  # noqa: PLC0415  # same
    from skillwire.adapters.files.authority import AuthorityFolder  # noqa: PLC0415  # same
    from skillwire.adapters.files.keys import certificate_pem, life_of, private_pem, serial_of  # noqa: PLC0415  # --help does without  # noqa: PLC0415  # same
    from skillwire.errors import ConflictError, SourceLocation, UsageError  # noqa: PLC0415  # same
    from skillwire.trust.certificates import RequestedNames  # noqa: PLC0415  # same
    from skillwire.trust.ecdsa import new_key  # noqa: PLC0415  # same

    authority = AuthorityFolder(folder)
    asked = _read_request(request) if request else None
    names = RequestedNames(agents, skills, hosts)
    if asked is not None and not any(names):
        names = asked.names
    elif not agents and not skills:
        fix = "Name it, --agent ID or --skill ID, or give what it has asked for: --request FILE."
        raise UsageError("USAGE", "nobody is named whom the certificate is for", fix=fix)
    names = names.check()
    days = _life(days, authority)
    if asked is None and (target / "agent.key").exists():
        fix = "Name another folder, or have a certificate issued for that key: skillwire key new, and --request."
        raise ConflictError(
            "KEY_EXISTS", "there is a key already", place=SourceLocation(str(target / "agent.key")), fix=fix
        )
    serial, ends = None, time.time() + days
    if not dry_run:
        key = None if asked else new_key()
        public = key.public_key() if key else asked.key  # type: ignore[union-attr]  # one of the two is there
        leaf = authority.issue(names, public, time.time(), days=days / _DAY)
        serial, ends = serial_of(leaf), life_of(leaf)[1]
        if key:
            write_atomically(target / "agent.key", private_pem(key), mode=0o600, durable=True)
        write_atomically(target / "agent.pem", certificate_pem(leaf), durable=True)
    content = {
        "dry_run": dry_run,
        "serial": serial,
        **names._asdict(),
        "expires_at": _moment(ends),
        "certificate": str(target / "agent.pem"),
        "key": None if asked else str(target / "agent.key"),
    }
    output.document("ca-issue/1", content)
    verb = good("would issue " if dry_run else "issued ")
    output.line(verb, bold(_named(names)), f", for {in_words(ends - time.time())}", dim(f"  {target / 'agent.pem'}"))
    if not dry_run:
        output.hint("at the agent:", f"skillwire key install {target}")


@command.command()
@_FOLDER
@_ROOT_KEY
@_DRY_RUN
@output_options
def renew(*, output: Output, folder: Path, root_key: Path | None, dry_run: bool) -> None:
    """Make another SkillCenter CA under the same root, which issues from now on.

    It has another key, and the name of the one before. What that one has issued stays good until it ends, and is
    renewed under the new one; to end it at once, take that one back. Agents learn of the new one with revocations.pem.
    """
    authority = _open(folder)
    now = time.time()
    authority.check_root_key(root_key)
    rows = [] if dry_run else [authority.renew(now, root_key=root_key)]
    output.document("ca-list/1", {"dry_run": dry_run, "certificates": _objects(rows, authority.book())})
    if dry_run:
        output.line(good("would make "), "another SkillCenter CA", dim(f"  {folder}"))
        return
    for row in rows:
        output.line(good("made "), bold(_named(row)), f", for {in_words(row.ends - now)}", dim(f"  {row.serial}"))
    output.hint("give to the agents:", str(folder / "revocations.pem"))
    output.hint("put away, off this machine:", str(root_key or folder / "root.key"))


@command.command()
@_FOLDER
@click.argument("which", metavar="WHICH")
@_ROOT_KEY
@_DRY_RUN
@output_options
def revoke(*, output: Output, folder: Path, which: str, root_key: Path | None, dry_run: bool) -> None:
    """Take certificates back: WHICH is a serial number, or an agent or skill whose certificates are all meant.

    Those of the same key go with them, and those that were renewed from them. revocations.pem is signed anew. Agents
    that are told of it refuse the certificate within seconds, whatever they knew before, and its key for good.

    Of a SkillCenter CA, by its serial number, all that it has issued ends; the root signs that. Renew it first.
    """
    authority = _open(folder)
    now = time.time()
    rows = authority.find(which, now)
    if rows[0].authority and dry_run:
        authority.check_root_key(root_key)
    if not dry_run:
        rows = authority.revoke(which, now, root_key=root_key)
    output.document("ca-list/1", {"dry_run": dry_run, "certificates": _objects(rows, authority.book())})
    for row in rows:
        verb = good("would revoke " if dry_run else "revoked ")
        output.line(verb, bold(_named(row)), dim(f"  {row.serial}"))
    if not dry_run:
        output.hint("give to the agents:", str(folder / "revocations.pem"))
        if rows[0].authority:
            output.hint("certify anew who does not renew by itself:", f"skillwire ca issue {folder}")
            output.hint("put away, off this machine:", str(root_key or folder / "root.key"))


@command.command(name="list")
@_FOLDER
@output_options
def list_(*, output: Output, folder: Path) -> None:
    """List what was issued: whom it is for, how long it is good, its serial number. SkillCenter CAs are among it."""
    book = _open(folder).book()
    output.document("ca-list/1", {"dry_run": False, "certificates": _objects(book.rows, book)})
    output.table([bold(_named(row)), _state(row, book), dim(row.serial)] for row in book.rows)
    if all(row.authority for row in book.rows):
        output.note(f"nothing was issued yet: skillwire ca issue {folder} --agent ID -o FOLDER")


def _open(folder: Path) -> AuthorityFolder:
    from skillwire.adapters.files.authority import AuthorityFolder  # noqa: PLC0415  # --help does without

    return AuthorityFolder(folder)


def _read_request(file: Path) -> CertificateRequest:
    from skillwire.adapters.files.keys import read_trust_file  # noqa: PLC0415  # --help does without
    from skillwire.errors import SourceLocation, ValidationError  # noqa: PLC0415  # same
    from skillwire.limits import LAN_REQUEST_BYTES  # noqa: PLC0415  # same
    from skillwire.trust.certificates import decode_request  # noqa: PLC0415  # same

    data = read_trust_file(file, LAN_REQUEST_BYTES)
    try:
        return decode_request(data)
    except ValidationError as error:
        raise ValidationError(error.code, error.message, place=SourceLocation(str(file)), fix=error.fix) from error


def _life(wanted: float | None, authority: AuthorityFolder) -> float:
    """Return how many seconds a certificate is good.

    Raises:
        UsageError: ``USAGE`` for fewer than one is good for anything, or more than its SkillCenter CA is good itself.
    """
    from skillwire.adapters.files.keys import life_of  # noqa: PLC0415  # --help does without
    from skillwire.errors import UsageError  # noqa: PLC0415  # same
    from skillwire.trust.authority import LEAF_DAYS  # noqa: PLC0415  # same

    ends = life_of(authority.centers[0])[1]
    left = ends - time.time()
    if wanted is None:
        return min(LEAF_DAYS * _DAY, left)
    if wanted < _SHORTEST:
        message = "a certificate of less than an hour would end before all agents have seen it"
        raise UsageError("USAGE", message, fix="Give --days 1h or more; what has to end sooner, take back.")
    if wanted > left:
        fix = f"Give at most --days {max(int(left // _DAY), 0)}d, or make the next SkillCenter CA: skillwire ca renew"
        raise UsageError("USAGE", f"it would outlive its SkillCenter CA, which ends at {_moment(ends)}", fix=fix)
    return wanted


def _named(names: Any) -> str:
    """Return whom a certificate is for, in words."""
    if getattr(names, "authority", ""):
        return str(names.authority)
    skills = [f"skill {one}" for one in names.skills]
    return ", ".join([*names.agents, *skills, *(f"host {one}" for one in names.hosts)])


def _state(row: IssuedRow, book: IssuedBook) -> Styled:
    left = row.ends - time.time()
    if row.revoked:
        return bad("revoked")
    if book.revoked_at(row):
        return bad("revoked with its SkillCenter CA")
    return bad("ended") if left <= 0 else good(f"ends in {in_words(left)}")


def _objects(rows: Iterable[IssuedRow], book: IssuedBook) -> list[dict[str, Any]]:
    return [_object(row, book.revoked_at(row)) for row in rows]


def _object(row: IssuedRow, revoked: float | None) -> dict[str, Any]:
    is_good = revoked is None and row.ends > time.time()
    return {
        "serial": row.serial,
        "authority": row.authority or None,
        "issuer": row.issuer or None,
        "agents": list(row.agents),
        "skills": list(row.skills),
        "hosts": list(row.hosts),
        "state": "good" if is_good else "ended" if revoked is None else "revoked",
        "issued_at": _moment(row.issued),
        "expires_at": _moment(row.ends),
        "revoked_at": None if revoked is None else _moment(revoked),
        "renews": row.renews or None,
    }


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
