"""``skillwire ca``: the certificate authority of a local network: issue, renew and revoke certificates.

An authority is a folder. Certificates and the signed revocation list are public; only the owner can read the keys.
``SKILLWIRE_CA_PASSPHRASE``, of eight characters or more, encrypts them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.adapters.files.atomic import read_trust_file, write_atomically
from skillwire.cli.key import names_object
from skillwire.cli.options import CommandGroup, Duration, LazyModule, dry_run_option, in_words, utc_time
from skillwire.cli.output import Output, Styled, bold, dim, failure, output_options, success, warning
from skillwire.errors import ConflictError, SourceLocation, UsageError, ValidationError
from skillwire.limits import LAN_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.adapters.files import authority as authority_files
    from skillwire.adapters.files.authority import AuthorityFolder, IssuedBook, IssuedRow
    from skillwire.cli.documents_run import IssuedCertificate
    from skillwire.trust import authority as authorities
    from skillwire.trust import certificates, ecdsa
    from skillwire.trust.certificates import CertificateRequest
else:  # load cryptography
    authority_files = LazyModule("adapters.files.authority")
    authorities = LazyModule("trust.authority")
    certificates = LazyModule("trust.certificates")
    ecdsa = LazyModule("trust.ecdsa")

_DAY: Final = 86_400.0
#: Seconds that a certificate is good at least: agents renew in the last third, and clocks differ by minutes.
_SHORTEST: Final = 3600.0
_FOLDER: Final = click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
_ROOT_KEY: Final = click.option(
    "--root-key",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The root's key, to sign a SkillCenter CA; root.key in FOLDER by default.",
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Issue and revoke certificates for agents and skills of the local network.

    An authority is a FOLDER with a root and a SkillCenter CA that issues. Agents trust it when their settings name its
    root.pem and center.pem in discovery.trust; revocations.pem lists the revoked certificates.

    Set SKILLWIRE_CA_PASSPHRASE, of at least 8 characters, to encrypt the keys.
    """


@command.command()
@_FOLDER
@click.option("--name", metavar="NAME", default="skillwire", show_default=True, help="Name of the authority's owner.")
@dry_run_option
@output_options
def init(*, output: Output, folder: Path, name: str, dry_run: bool) -> None:
    """Create a root and a SkillCenter CA in FOLDER.

    Only you can read the keys; SKILLWIRE_CA_PASSPHRASE encrypts them. The root's key is needed again only to renew or
    revoke the SkillCenter CA: store root.key off this machine.
    """
    is_encrypted = authority_files.passphrase() is not None
    if dry_run:
        authority_files.check_new(folder)
    else:
        authority_files.AuthorityFolder.create(folder, name, time.time())
    output.document({
        "schema": "skillwire/ca/1", "dry_run": dry_run, "folder": str(folder), "root": str(folder / "root.pem"),
        "center": str(folder / "center.pem"), "revocations": str(folder / "revocations.pem"), "encrypted": is_encrypted,
    })  # fmt: skip
    output.line(success("would make " if dry_run else "made "), bold(f"{name} Root CA"), dim(f"  {folder}"))
    if not dry_run:
        if not is_encrypted:
            output.note(warning("the keys are not encrypted; set SKILLWIRE_CA_PASSPHRASE to encrypt them"))
        output.hint("store off this machine:", str(folder / "root.key"))


@command.command()
@_FOLDER
@click.option("--agent", "agents", metavar="ID", multiple=True, help="Agent to certify; repeatable.")
@click.option("--skill", "skills", metavar="ID", multiple=True, help="Skill to certify, for any agent; repeatable.")
@click.option(
    "--host", "hosts", metavar="HOST", multiple=True, help="Address or host name that may be announced; repeatable."
)
@click.option(
    "--request",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Output of skillwire key new; without it a key is generated here.",
)
@click.option("--days", metavar="DURATION", type=Duration(), help="Validity, such as 7d (the default); at least 1h.")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FOLDER",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for agent.pem, and for agent.key when the key is generated here.",
)
@dry_run_option
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
    """Issue a certificate for an agent or a skill.

    The options name its subjects; without them, the request does. It is valid for seven days, and agents renew it
    automatically if their settings name renewFrom.
    """
    authority = authority_files.AuthorityFolder(folder)
    asked = _read_request(request) if request else None
    names = certificates.RequestedNames(agents, skills, hosts)
    if asked is not None and not any(names):
        names = asked.names
    elif not agents and not skills:
        fix = "Pass --agent ID or --skill ID, or the agent's request with --request FILE."
        raise UsageError("USAGE", "the certificate has no subject", fix=fix)
    names = names.check()
    days = _life(days, authority)
    if asked is None and (target / "agent.key").exists():
        fix = "Name another folder, or issue a certificate for that key: skillwire key new, then --request."
        place = SourceLocation(str(target / "agent.key"))
        raise ConflictError("KEY_EXISTS", "the folder already contains a key", place=place, fix=fix)
    serial, ends = None, time.time() + days
    if not dry_run:
        key = None if asked else ecdsa.new_key()
        public = key.public_key() if key else asked.key  # type: ignore[union-attr]  # one of the two is there
        leaf = authority.issue(names, public, time.time(), days=days / _DAY)
        serial, ends = certificates.serial_of(leaf), certificates.life_of(leaf)[1]
        if key:
            write_atomically(target / "agent.key", certificates.private_pem(key), mode=0o600, durable=True)
        write_atomically(target / "agent.pem", certificates.certificate_pem(leaf), durable=True)
    output.document({
        "schema": "skillwire/ca-issue/1", "dry_run": dry_run, "serial": serial, **names_object(names),
        "expires_at": utc_time(ends), "certificate": str(target / "agent.pem"),
        "key": None if asked else str(target / "agent.key"),
    })  # fmt: skip
    verb = success("would issue " if dry_run else "issued ")
    output.line(verb, bold(_named(names)), f", for {in_words(ends - time.time())}", dim(f"  {target / 'agent.pem'}"))
    if not dry_run:
        output.hint("at the agent:", f"skillwire key install {target}")


@command.command()
@_FOLDER
@_ROOT_KEY
@dry_run_option
@output_options
def renew(*, output: Output, folder: Path, root_key: Path | None, dry_run: bool) -> None:
    """Create another SkillCenter CA under the same root, which issues from now on.

    It has a new key and the same name. Certificates of the previous CA stay valid until they expire, and are renewed
    under the new one; to end them at once, revoke the previous CA. Agents learn the new CA from revocations.pem.
    """
    authority = authority_files.AuthorityFolder(folder)
    now = time.time()
    authority.check_root_key(root_key)
    rows = [] if dry_run else [authority.renew(now, root_key=root_key)]
    _print_document(output, rows, authority.book(), dry_run=dry_run)
    if dry_run:
        output.line(success("would make "), "another SkillCenter CA", dim(f"  {folder}"))
        return
    for row in rows:
        output.line(success("made "), bold(_named(row)), f", for {in_words(row.ends - now)}", dim(f"  {row.serial}"))
    output.hint("copy to the agents:", str(folder / "revocations.pem"))
    output.hint("store off this machine:", str(root_key or folder / "root.key"))


@command.command()
@_FOLDER
@click.argument("which", metavar="WHICH")
@_ROOT_KEY
@dry_run_option
@output_options
def revoke(*, output: Output, folder: Path, which: str, root_key: Path | None, dry_run: bool) -> None:
    """Revoke certificates: WHICH is a serial number, or an agent or skill, which means all of its certificates.

    Certificates of the same key, and renewals, are revoked with them. revocations.pem is signed again. Agents that
    receive it reject the certificate within seconds, and its key forever.

    To revoke a SkillCenter CA, give its serial number. Every certificate that it issued ends, and the root signs the
    list. Renew the CA first.
    """
    authority = authority_files.AuthorityFolder(folder)
    now = time.time()
    rows = authority.find(which, now)
    if rows[0].authority and dry_run:
        authority.check_root_key(root_key)
    if not dry_run:
        rows = authority.revoke(which, now, root_key=root_key)
    _print_document(output, rows, authority.book(), dry_run=dry_run)
    for row in rows:
        verb = success("would revoke " if dry_run else "revoked ")
        output.line(verb, bold(_named(row)), dim(f"  {row.serial}"))
    if not dry_run:
        output.hint("copy to the agents:", str(folder / "revocations.pem"))
        if rows[0].authority:
            output.hint("issue again for agents without automatic renewal:", f"skillwire ca issue {folder}")
            output.hint("store off this machine:", str(root_key or folder / "root.key"))


@command.command(name="list")
@_FOLDER
@output_options
def list_(*, output: Output, folder: Path) -> None:
    """List the issued certificates, with subjects, validity and serial numbers. The list includes SkillCenter CAs."""
    book = authority_files.AuthorityFolder(folder).book()
    _print_document(output, book.rows, book, dry_run=False)
    output.table([bold(_named(row)), _state(row, book), dim(row.serial)] for row in book.rows)
    if all(row.authority for row in book.rows):
        output.note(f"nothing was issued yet: skillwire ca issue {folder} --agent ID -o FOLDER")


def _read_request(file: Path) -> CertificateRequest:
    data = read_trust_file(file, LAN_REQUEST_BYTES)
    try:
        return certificates.decode_request(data)
    except ValidationError as error:
        raise ValidationError(error.code, error.message, place=SourceLocation(str(file)), fix=error.fix) from error


def _life(wanted: float | None, authority: AuthorityFolder) -> float:
    """Return the validity in seconds: at least an hour, and at most that of the SkillCenter CA."""
    ends = certificates.life_of(authority.centers[0])[1]
    left = ends - time.time()
    if wanted is None:
        return min(authorities.LEAF_DAYS * _DAY, left)
    if wanted < _SHORTEST:
        message = "a certificate valid for less than an hour would expire before all agents have seen it"
        raise UsageError("USAGE", message, fix="Pass --days 1h or more; to end a certificate sooner, revoke it.")
    if wanted > left:
        fix = f"Give at most --days {max(int(left // _DAY), 0)}d, or create the next SkillCenter CA: skillwire ca renew"
        raise UsageError("USAGE", f"it would outlive its SkillCenter CA, which expires at {utc_time(ends)}", fix=fix)
    return wanted


def _named(names: Any) -> str:
    if getattr(names, "authority", ""):
        return str(names.authority)
    skills = [f"skill {one}" for one in names.skills]
    return ", ".join([*names.agents, *skills, *(f"host {one}" for one in names.hosts)])


def _state(row: IssuedRow, book: IssuedBook) -> Styled:
    left = row.ends - time.time()
    if row.revoked:
        return failure("revoked")
    if book.revoked_at(row):
        return failure("revoked with its SkillCenter CA")
    return failure("ended") if left <= 0 else success(f"ends in {in_words(left)}")


def _print_document(output: Output, rows: Iterable[IssuedRow], book: IssuedBook, *, dry_run: bool) -> None:
    certificates = [_object(row, book.revoked_at(row)) for row in rows]
    output.document({"schema": "skillwire/ca-list/1", "dry_run": dry_run, "certificates": certificates})


def _object(row: IssuedRow, revoked: float | None) -> IssuedCertificate:
    is_good = revoked is None and row.ends > time.time()
    return {
        "serial": row.serial,
        "authority": row.authority or None,
        "issuer": row.issuer or None,
        **names_object(row),
        "state": "good" if is_good else "ended" if revoked is None else "revoked",
        "issued_at": utc_time(row.issued),
        "expires_at": utc_time(row.ends),
        "revoked_at": None if revoked is None else utc_time(revoked),
        "renews": row.renews or None,
    }
