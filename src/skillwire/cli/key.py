"""``skillwire key``: the key of this machine's agent and its certificate.

The key never leaves the state directory: ``new`` prints a request for an authority, and ``install`` installs the
certificate that it issues; ``enroll`` does both with a registry.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from skillwire import limits
from skillwire.cli.options import CommandGroup, LazyModule, combine, dry_run_option, in_words, open_client, utc_time
from skillwire.cli.output import Output, Styled, bold, dim, failure, output_options, success, warning
from skillwire.cli.publish import registry_option
from skillwire.errors import (
    ConflictError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    in_seconds,
    one_line,
)
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.adapters.files import keys as key_files
    from skillwire.adapters.files import lan_trust, settings_file
    from skillwire.adapters.files.authority import IssuedRow
    from skillwire.adapters.files.keys import LanKeys
    from skillwire.adapters.lan import probes
    from skillwire.cli.documents_run import AgentCertificate, CertificateNames, KeyDocument, RegistryTrust
    from skillwire.protocols.skill_discovery import credentials
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.trust import certificates, ecdsa
    from skillwire.trust.certificates import RequestedNames
else:  # load cryptography, and the messages of discovery
    key_files = LazyModule("adapters.files.keys")
    lan_trust = LazyModule("adapters.files.lan_trust")
    probes = LazyModule("adapters.lan.probes")
    settings_file = LazyModule("adapters.files.settings_file")
    certificates = LazyModule("trust.certificates")
    credentials = LazyModule("protocols.skill_discovery.credentials")
    ecdsa = LazyModule("trust.ecdsa")

_REVOKED: Final = {
    "certificate": "revoked: other agents reject it and its key",
    "authority": "its SkillCenter CA was revoked: other agents reject it until it is issued again",
}


class _Shown(NamedTuple):
    """The description of a certificate."""

    names: RequestedNames
    is_own: bool
    ends: float
    serial: str
    revoked: Literal["certificate", "authority"] | None = None


@click.group(cls=CommandGroup)
def command() -> None:
    """Show, create and certify the keys of this machine's agents.

    Keys are stored in the state directory, so run this as the user who runs the agents.
    """


_named_options = combine(
    click.option(
        "--agent",
        metavar="ID",
        help="Agent name, NAME-2 of a second server; by default that of the settings, or the stored one.",
    ),
    click.option("--skill", "skills", metavar="ID", multiple=True, help="Skill to certify as well; repeatable."),
    click.option("--host", "hosts", metavar="HOST", multiple=True, help="Host to announce; repeatable."),
)


@command.command()
@_named_options
@click.option("--replace", is_flag=True, help="Generate a new key; this invalidates the certificates of the old one.")
@dry_run_option
@output_options
def new(
    *, output: Output, agent: str | None, skills: tuple[str, ...], hosts: tuple[str, ...], replace: bool, dry_run: bool
) -> None:
    """Generate a key if there is none, and print a certificate request.

    The request contains no secret. Send it to the owner of the authority: skillwire ca issue FOLDER --request FILE.
    """
    keys = key_files.LanKeys()
    own = settings_file.own_discovery().agent_id or keys.known_id()
    agent_id = agent or own or ("agent" if dry_run else keys.agent_id())
    names = certificates.RequestedNames((agent_id,), skills, hosts).check()
    keys = keys.of_agent(agent_id) if agent_id == own else _of_agent(keys, agent_id)
    is_new = replace or not keys.key_file.exists()
    request = None
    if not dry_run:
        if replace:
            keys.keep_key(ecdsa.new_key())
        request = certificates.encode_request(names, keys.key()).decode("ascii")
    output.document({
        "schema": "skillwire/key-request/1", "dry_run": dry_run, **names_object(names), "new": is_new,
        "request": request,
    })  # fmt: skip
    made = ("would generate a key" if dry_run else "generated a key") if is_new else "kept the existing key"
    output.note(success(made), f" for {agent_id}", dim(f"  {keys.key_file}"))
    if request is not None:
        output.text(request)


@command.command()
@_named_options
@registry_option
@output_options
def enroll(
    *, output: Output, agent: str | None, skills: tuple[str, ...], hosts: tuple[str, ...], registry: str
) -> None:
    """Get a certificate from a registry, and install it.

    It takes a token of your account: skillwire auth login --registry URL. The agent's name is your account's, and the
    skills are those of your namespaces; operators may name others. The key stays on this machine. The settings
    to trust the registry's authority, renew the certificate and hear of revocations are printed.
    """
    first = key_files.LanKeys()
    with open_client(output) as client:
        remote = client.registry(registry)
        agent_id = agent or str(remote.request("GET", "/whoami").get("account") or "")
        names = certificates.RequestedNames((agent_id,), skills, hosts).check()
        keys = first.of_agent(agent_id)
        _check_name(keys, names.agents, fix=f"{_SECOND} To rename this agent, run skillwire key new --replace first.")
        request = certificates.encode_request(names, keys.key()).decode("ascii")
        try:
            answer = remote.request("POST", "/api/pki/enroll", {"request": request})
        except FetchError as error:
            if error.code != "NOT_FOUND":
                raise
            fix = "Have its operator set authority in [discovery.trust] of its configuration, and serve with --lan."
            raise NotFoundError("CA_FOLDER", f"{registry} has no authority", place=error.place, fix=fix) from error
        except TrustError as error:
            owned = "Name your account and skills of your namespaces alone. For another agent, log in as an account of "
            owned += "its name, or have an operator run this here."
            raise TrustError(error.code, error.message, place=error.place, fix=error.fix or owned) from error
    certificate = credentials.read_issued(json.dumps(answer).encode())
    if not certificates.belongs(certificate, keys.key()):
        raise TrustError("CERTIFICATE_REFUSED", "the registry issued a certificate for another key")
    base = registry.rstrip("/")
    chain = asyncio.run(
        probes.send_to_known_address(HttpRequest(f"{base}/api/pki/chain", max_bytes=limits.LAN_TRUST_FILE_BYTES))
    )
    roots, centers = first.keep_authority(chain.body, chain.url)
    keys.keep_certificate(certificate)
    keys.keep_id(agent_id)
    shown = _describe(certificate, settings_file.own_discovery(), output)
    trust: RegistryTrust = {"roots": [str(roots)], "intermediates": [str(centers)], "renewFrom": base}
    output.document({
        "schema": "skillwire/key-install/1", "dry_run": False, "key": False, "certificate": _object(shown),
        "trust": trust,
    })  # fmt: skip
    output.line(
        success("enrolled "), bold(", ".join(name for names in shown.names for name in names)), dim(f"  {keys.folder}")
    )
    output.note(_loaded())
    if not {str(roots)}.issubset(settings_file.own_discovery().roots):
        output.line(f"trust this authority: add to {settings_file.user_file()}, and restart servers")
        output.line("  [discovery.trust]")
        for name, value in trust.items():
            output.line(f"  {name} = {json.dumps(value)}")


@command.command()
@click.option("--agent", metavar="ID", help="Agent of this machine; by default the first.")
@output_options
def show(*, output: Output, agent: str | None) -> None:
    """Show the agent's name, and its certificate: subjects, issuer and expiry.

    The certificate is checked against the known revocations.
    """
    first, settings = key_files.LanKeys(), settings_file.own_discovery()
    agent_id = settings.agent_id or first.known_id()
    keys = first
    if agent is not None and agent != agent_id:
        keys = first.of_agent(agent)
        if keys is first:
            raise _unknown_agent(agent, (agent_id, *(one.folder.name for one in first.numbered())))
        agent_id = agent
    certificate = keys.certificate()
    shown = None if certificate is None else _describe(certificate, settings, output)
    content: KeyDocument = {
        "schema": "skillwire/key/1",
        "agent": agent_id,
        "key": str(keys.key_file) if keys.key_file.exists() else None,
        "fingerprint": f"sha256:{ecdsa.digest_of(keys.key().public_key()).hex()}" if keys.key_file.exists() else None,
        "certificate": None if shown is None else _object(shown),
    }
    output.document(content)
    rows: list[tuple[str, Any]] = [("agent", bold(agent_id or "no name yet"))]
    if content["fingerprint"] is not None:
        rows.append(("key", content["fingerprint"]))
    rows.append(("certificate", _state(shown)))
    if shown is not None and any(shown.names):
        rows.append(("for", ", ".join(name for names in shown.names for name in names)))
    output.table([dim(label), what] for label, what in rows)
    if shown is not None and shown.revoked is not None:
        is_key = shown.revoked == "certificate"
        why = "generate another key, and certify it:" if is_key else "issue a certificate again for the same key:"
        which = "" if keys is first else f" --agent {agent_id}"
        output.hint(why, f"skillwire key new{' --replace' if is_key else ''}{which}")


@command.command()
@click.argument("source", metavar="FOLDER", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--replace", is_flag=True, help="Replace the agent's key, or its name; this invalidates its certificates."
)
@dry_run_option
@output_options
def install(*, output: Output, source: Path, replace: bool, dry_run: bool) -> None:
    """Install the certificate that skillwire ca issue wrote to FOLDER: agent.pem, and agent.key if present.

    It goes to the agent of this machine whose key it certifies; with agent.key, to the one that it names. A running
    agent of this name loads both within seconds. Agents that do not know yet that its previous key was revoked list it
    again after half a minute.
    """
    folder = source if source.is_dir() else source.parent
    file = source / "agent.pem" if source.is_dir() else source
    try:
        certificate = key_files.read_certificates([file])[0]
    except ValidationError as error:
        fix = "Name the folder written by skillwire ca issue; it contains agent.pem."
        raise ValidationError(error.code, error.message, place=error.place, fix=fix) from error
    agents = certificates.agents_of(certificate)
    keys, brought = _find_agent(certificate, agents, file, folder / "agent.key")
    has_other_key = keys.key_file.exists() and not certificates.belongs(certificate, keys.key())
    if brought is not None and has_other_key and not replace:
        raise ConflictError("KEY_EXISTS", "this agent has another key", place=SourceLocation(str(keys.key_file)))
    if not replace:
        _check_name(keys, agents, fix=f"{_SECOND} To rename this agent, pass --replace.")
    if not dry_run:
        if brought is not None:
            keys.keep_key(brought)
        keys.keep_certificate(certificate)
        if agents and keys.known_id() not in agents:
            keys.keep_id(agents[0])
    shown = _describe(certificate, settings_file.own_discovery(), output)
    with_key, described = brought is not None, _object(shown)
    output.document(
        {"schema": "skillwire/key-install/1", "dry_run": dry_run, "key": with_key, "certificate": described}
    )
    verb = success("would install " if dry_run else "installed ")
    output.line(verb, bold(", ".join(name for names in shown.names for name in names)), dim(f"  {keys.folder}"))
    if shown.revoked is not None:
        output.note(failure(_REVOKED[shown.revoked]))
    if not dry_run:
        output.note(_loaded())


def _find_agent(
    certificate: bytes, agents: Sequence[str], file: Path, beside: Path
) -> tuple[LanKeys, EllipticCurvePrivateKey | None]:
    """Return the folder of the agent that a certificate is for, and the key that came with it, if any."""
    first = key_files.LanKeys()
    ours = [one for one in (first, *first.numbered()) if one.key_file.exists()]
    if beside.exists() and beside not in [one.key_file for one in ours]:
        brought = key_files.read_private_key(beside)
        if certificates.belongs(certificate, brought):
            return first.of_agent(agents[0] if agents else ""), brought
    elif found := [one for one in ours if certificates.belongs(certificate, one.key())]:
        return found[0], None
    which = f" --agent {agents[0]}" if agents else ""
    fix = f"Issue it for the key of that agent: skillwire key new{which}, then skillwire ca issue --request."
    place = SourceLocation(str(file))
    raise ValidationError("LAN_TRUST", "no agent of this machine has the certificate's key", place=place, fix=fix)


def _of_agent(first: LanKeys, agent_id: str) -> LanKeys:
    """Return the folder of an agent that was named; the first one's name is free until an authority certifies it."""
    keys = first.of_agent(agent_id)
    certificate = first.certificate() if keys is first else None
    if certificate is None or certificates.is_own(certificate):
        return keys
    names = certificates.agents_of(certificate)
    if names and agent_id not in names:
        raise _unknown_agent(agent_id, (*names, *(one.folder.name for one in first.numbered())), _STARTED)
    return keys


_STARTED: Final = " The key of a second agent is made when its server first starts."


def _unknown_agent(agent_id: str, names: Sequence[str | None], more: str = "") -> UsageError:
    known = ", ".join(filter(None, names)) or "none yet"
    fix = f"Name one of these: {known}.{more}"
    return UsageError("USAGE", f"no agent of this machine is named {agent_id}", fix=fix)


_SECOND: Final = "For a second agent, start its server, and certify the key that skillwire key new --agent NAME shows."


def _check_name(keys: LanKeys, agents: Sequence[str], *, fix: str) -> None:
    """Refuse to rename a further agent of this machine, or one with a certificate of an authority."""
    certificate, first = keys.certificate(), key_files.LanKeys()
    held = [] if certificate is None else certificates.agents_of(certificate)
    is_certified = certificate is not None and not certificates.is_own(certificate)
    is_renamed = is_certified and bool(held and agents) and not {*held} & {*agents}
    is_another = bool(agents) and keys.folder not in [first.of_agent(one).folder for one in agents]
    if is_renamed or is_another:
        known = ", ".join(held) or keys.known_id() or "another agent"
        message = f"the certificate names {', '.join(agents)}, but the agent with this key is {known}"
        raise ValidationError("LAN_TRUST", message, place=SourceLocation(str(keys.folder)), fix=fix)


def _loaded() -> str:
    return f"a server of this name loads it within {in_seconds(key_files.INSTALLED_SECONDS)}; restart servers of others"


def _describe(certificate: bytes, settings: LanSettings, output: Output) -> _Shown:
    revoked = None
    try:
        revoked = lan_trust.revoked_part(settings, certificate)
    except SkillwireError as error:
        output.note(warning(f"its revocation status is unknown: {one_line(error)}"))
    names = certificates.RequestedNames(*(tuple(sorted(one)) for one in certificates.names_of(certificate)))
    ends, serial = certificates.life_of(certificate)[1], certificates.serial_of(certificate)
    return _Shown(names, certificates.is_own(certificate), ends, serial, revoked)


def _state(shown: _Shown | None) -> Styled:
    if shown is None:
        return warning("none yet; created when the agent starts")
    left = shown.ends - time.time()
    if shown.revoked is not None:
        return failure(_REVOKED[shown.revoked])
    if left <= 0:
        return failure("ended")
    by = "self-signed: other agents list this one as unverified" if shown.is_own else "by an authority"
    return (warning if shown.is_own else success)(f"{by}, ends in {in_words(left)}")


def names_object(names: RequestedNames | IssuedRow) -> CertificateNames:
    """Return the subjects of a certificate for ``--json``."""
    return {"agents": list(names.agents), "skills": list(names.skills), "hosts": list(names.hosts)}


def _object(shown: _Shown) -> AgentCertificate:
    is_good = shown.ends > time.time()
    return {
        "serial": shown.serial,
        **names_object(shown.names),
        "by": "ourselves" if shown.is_own else "authority",
        "expires_at": utc_time(shown.ends),
        "state": "revoked" if shown.revoked else "good" if is_good else "ended",
        "good": is_good and shown.revoked is None,
    }
