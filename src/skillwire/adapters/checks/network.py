"""Checks of the network: sources, the local network, the DHT, proxies, certificate authorities and clocks."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.checks import Diagnosis, Environment, from_error, url_of
from skillwire.adapters.dht.agent import find_answering
from skillwire.adapters.files.atomic import cache_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.credentials import (
    credential_place,
    find_password,
    find_token,
    open_store,
)
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import revocation_urls, revoked_part
from skillwire.adapters.files.settings_file import read_discovery_file
from skillwire.adapters.git import upload_pack
from skillwire.adapters.http.connection import client_context, find_proxy, known_addresses, resolve_host
from skillwire.adapters.http.sync import SyncDriver, run_parallel
from skillwire.errors import FetchError, SkillwireError, SourceLocation, in_seconds
from skillwire.model.lan import host_and_port
from skillwire.model.url import Url, parse_url
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.decoder import decode_index
from skillwire.resolver.context import GitMemory, ResolveContext
from skillwire.resolver.references import parse_source
from skillwire.resolver.resolve import find_skills
from skillwire.resolver.settings import join_discovery
from skillwire.resolver.sources import AGENT_SKILLS, LAN, Lookup
from skillwire.trust.address import AddressPolicy
from skillwire.trust.certificates import agents_of, belongs, is_own, life_of
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from collections.abc import Iterator


_SKEW_NOTICED: Final = 60.0  # seconds; a Date header has whole seconds and answers take some, too
_SKEW_HARMFUL: Final = 3600.0  # seconds; certificates and freshness are judged by a clock that is this wrong
_WIDE: Final = re.compile(r".*/[0-7]", re.ASCII)  # a network of sixteen million addresses and more
_PING_SECONDS: Final = 2.0


def judge_skew(seconds: float, source: str) -> Diagnosis:
    """Judge how far this clock is ahead (or, when negative, behind) of that of ``source``."""
    if abs(seconds) < _SKEW_NOTICED:
        return Diagnosis("ok", f"the clock agrees with that of {source} within a minute")
    direction = "ahead of" if seconds > 0 else "behind"
    why = "Whether a certificate is valid and a cached answer is fresh depends on the clock."
    what = f"the clock is {in_seconds(abs(seconds))} {direction} that of {source}"
    fix = "Let the system set its time, such as with timedatectl set-ntp true."
    return Diagnosis("problem" if abs(seconds) >= _SKEW_HARMFUL else "warning", what, why, fix)


def check_authorities(_: Environment) -> Iterator[Diagnosis]:
    """Look for the certificate authorities that https is verified with."""
    known = client_context().cert_store_stats()["x509_ca"]
    folder = ssl.get_default_verify_paths().capath  # read when a certificate is met, so it is not counted above
    if known or folder:
        counted = f"{known} certificate authorities" if known else f"certificate authorities in {folder}"
        yield Diagnosis("ok", f"{counted}, {ssl.OPENSSL_VERSION}")
    else:
        why = "No https server can be verified, so none is connected to."
        fix = "Install the system's package ca-certificates, or set SSL_CERT_FILE."
        yield Diagnosis("problem", "no certificate authorities are installed", why, fix)


def check_proxies(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report the proxy of public hosts, without its password; raises for a variable that cannot be used."""
    proxy = find_proxy(parse_url("https://proxied.example"), surroundings.environment)
    if proxy is None:
        yield Diagnosis("ok", "no proxy is set; connections are direct")
    else:
        yield Diagnosis("ok", f"{proxy.variable} names the proxy {proxy.url.authority}, which resolves names")


def check_policy(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report what the address policy opens."""
    surroundings.policy()  # raises for an entry that cannot be read
    for entry in surroundings.settings.allow:
        if _WIDE.fullmatch(entry):
            why = "Any index, redirect or DNS answer may then lead into that whole network."
            yield Diagnosis("warning", f"allow opens {entry}", why, "List the hosts that you mean.")
        else:
            yield Diagnosis("ok", f"allow opens {entry}")
    if not surroundings.settings.allow:
        yield Diagnosis("ok", "public addresses over https, and what you name yourself; allow is empty")


def check_offline(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report that sources are not asked, and which."""
    if surroundings.offline and surroundings.settings.sources:
        yield Diagnosis("ok", f"offline: not asked are {', '.join(surroundings.settings.sources)}")


def check_lan(surroundings: Environment) -> Iterator[Diagnosis]:
    """Read the settings of the local network, the files that they name, and the certificates of our agents."""
    lan, first = join_discovery(surroundings.settings.discovery, read_discovery_file), LanKeys()
    certified = [(one, held) for one in (first, *first.numbered()) if (held := one.certificate()) is not None]
    fetched: list[bytes] = []
    urls = revocation_urls(lan) if certified and not (lan.group_key_file or surroundings.offline) else []
    # All at once: silent servers must leave time for the certificates.
    for _, found in run_parallel([partial(_fetch_revocations, url) for url in urls], threads=len(urls)):
        if isinstance(found, bytes):
            fetched.append(found)
        elif isinstance(found, SkillwireError):
            yield from_error(found, "warning", lead="the list of revoked certificates is not read: ")
        else:
            raise found
    revoked_part(lan, None)  # raises for a file that cannot be used
    if surroundings.settings.discovery:
        yield Diagnosis("ok", "the settings of the local network, and the certificates that they name, can be read")
    for keys, certificate in certified if not lan.group_key_file else ():
        which = "" if keys is first else f" --agent {keys.folder.name}"
        yield _judge_certificate(keys, certificate, revoked_part(lan, certificate, fetched), which, surroundings.now)


def _judge_certificate(keys: LanKeys, certificate: bytes, revoked: str | None, which: str, now: float) -> Diagnosis:
    """Judge an agent's certificate; ``which`` is the option that names the agent."""
    names, ends = ", ".join(agents_of(certificate)), life_of(certificate)[1]
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(ends))
    why = "Other agents refuse it, or list its skills as unverified."
    if revoked is not None:
        is_key = revoked == "certificate"
        what = f"the certificate of {names}, or the SkillCenter CA that issued it, was revoked"
        fix = f"skillwire key new{' --replace' if is_key else ''}{which}, and have the key certified."
        return Diagnosis("problem", what, why, fix)
    if not keys.key_file.exists() or not belongs(certificate, keys.key()):
        fix = f"skillwire key new{which}, and have the key certified: skillwire key install FOLDER."
        return Diagnosis("problem", f"the certificate of {names} is for another key than {keys.key_file}", why, fix)
    if ends < now and not is_own(certificate):
        fix = f"Set renewFrom in [discovery.trust], or have another one issued: skillwire key new{which}."
        return Diagnosis("problem", f"the certificate of {names} has ended at {when} UTC", why, fix)
    by = "self-signed, and renewed by itself" if is_own(certificate) else "by an authority"
    return Diagnosis("ok", f"the certificate of {names} is {by}; it ends at {when} UTC")


def _fetch_revocations(url: str) -> bytes:
    with SyncDriver(AddressPolicy().naming(parse_url(url))) as driver:
        return driver.run(_read_revocations(url))


def _read_revocations(url: str) -> Flow[bytes]:
    response = yield HttpRequest(url, max_bytes=limits.LAN_REVOCATIONS_BYTES, timeout=_PING_SECONDS)
    if response.status != HTTPStatus.OK:
        raise FetchError("HTTP_STATUS", f"it answers {response.status}", place=SourceLocation(url))
    body: bytes = response.body
    return body


def check_dht(surroundings: Environment) -> Iterator[Diagnosis]:
    """Ask the bootstrap nodes of the DHT whether they are there, where it is on."""
    if not surroundings.settings.discovery or surroundings.offline:
        return
    try:
        lan = join_discovery(surroundings.settings.discovery, read_discovery_file)
    except SkillwireError:  # a finding of the local network
        return
    if not lan.dht.enabled or not lan.dht.bootstrap or lan.group_key_file:
        return
    answering = asyncio.run(find_answering(lan, _PING_SECONDS))
    yield from (Diagnosis("ok", f"the bootstrap node {name} of the DHT answers") for name in answering)
    if not answering:
        names = ", ".join(host_and_port(*one) for one in lan.dht.bootstrap)
        why = "Skills are found in the DHT, and announced there, once a bootstrap node answers."
        fix = "Check the addresses in [discovery.dht], and that firewalls let the UDP port pass."
        yield Diagnosis("warning", f"no bootstrap node of the DHT answers: {names}", why, fix)


def check_source(source: str, surroundings: Environment) -> Iterator[Diagnosis]:
    """Look one source up in DNS, hold it against the address policy, and ask it for its skills, as ``find`` does."""
    policy = surroundings.policy()
    location = parse_source(source)
    if location.source == LAN:
        yield from _check_network(source, surroundings)
        return
    url, authorization = url_of(location), None
    if url is not None:
        try:
            policy.check_url(url)
            proxy = find_proxy(url, surroundings.environment)
            addresses = () if proxy else known_addresses(url.host) or resolve_host(url.host)
            for address in addresses:
                policy.check_address(url, address)
        except SkillwireError as error:
            yield from_error(error, lead=f"{source}: ")
            return
        yield Diagnosis("ok", f"{source} leads to {', '.join(addresses) or 'the proxy'}")
        # A source that only the project names is asked without a credential, as every command does.
        authorization = _authorization(url, surroundings) if url.origin in policy.named else None
    begun = time.monotonic()
    try:
        answer, skills = _ask(location, surroundings, policy, authorization)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    place = (
        f", with the credential of {credential_place(url, surroundings.environment)}" if url and authorization else ""
    )
    yield Diagnosis("ok", f"{source} lists {skills} skills, {milliseconds:.0f} ms{place}")
    if answer is not None and (skew := _skew(answer)) is not None:
        yield judge_skew(skew, source)


def _check_network(source: str, surroundings: Environment) -> Iterator[Diagnosis]:
    try:
        lan = join_discovery(surroundings.settings.discovery, read_discovery_file)
    except SkillwireError:  # a finding of the local network
        return
    if lan.multicast or lan.mdns:
        yield Diagnosis("ok", f"{source} is the local network; skillwire lan lists its agents")
    else:
        why, fix = (
            "Searches do not ask the local network.",
            "Set enabled = true in [discovery.udp] or [discovery.mdns].",
        )
        yield Diagnosis("warning", f"{source} is a source, and the settings disable multicast and mDNS", why, fix)


def _authorization(url: Url, surroundings: Environment) -> str | None:
    """Return what a command would send there in ``Authorization``; a stored token as it is, without renewing it."""
    if (token := find_token(url, surroundings.environment)) is not None:
        return token
    stored = open_store().find(url.origin)
    if stored is not None and stored.kind != "custom" and stored.header.lower() == "authorization":
        return stored.field_value
    return find_password(url, surroundings.environment)


class _Unkept:
    """A cache, and a book of origins, that keep nothing: a check changes nothing."""

    def look_up(self, *_: object) -> None:
        """Return that nothing is kept."""

    keep = drop = record = look_up


def _ask(
    location: Lookup, surroundings: Environment, policy: AddressPolicy, authorization: str | None
) -> tuple[HttpResponse | None, int]:
    """Return the answer of an Agent Skills index, None of any other source, and the number of skills."""
    with SyncDriver(policy) as driver:
        for url in filter(None, (location.url, location.old_url)) if location.source == AGENT_SKILLS else ():
            answer = driver.run(fetch_index(url, authorization=authorization))
            if answer is not None:
                return answer, len(decode_index(answer.body, answer.url).entries)
        context = ResolveContext(
            cache=_Unkept(),
            blobs=FileBlobs(cache_directory() / "blobs"),
            origins=_Unkept(),
            credentials={parse_url(location.url).origin: authorization} if authorization else {},
            clock=time.time,
            report=lambda _: None,
            addresses=lambda: policy,
            root=surroundings.root,
            git=GitMemory({}, {}),
            upload_pack=upload_pack,
        )
        return None, len(driver.run(find_skills(location, context)))


def _skew(answer: HttpResponse) -> float | None:
    """Return how far this clock is ahead of the answer's; None when it does not say, or it comes out of a cache."""
    try:
        date = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):  # a server need not say the time, and then there is nothing to compare
        return None
    return None if "age" in answer.headers else time.time() - date.timestamp()
