"""Checks of the network: proxies, the address policy, and each configured source, asked as every command asks it."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from skillwire.adapters.files.credential_store import open_store
from skillwire.adapters.files.credentials import credential_place, find_password, find_token
from skillwire.adapters.http.names import known_addresses, look_up
from skillwire.adapters.http.sync import SyncDriver
from skillwire.errors import NotFoundError, Place, SkillwireError
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.codec import decode_index
from skillwire.resolver.checkup import Diagnosis, from_error, judge_allow, judge_proxies, judge_skew
from skillwire.resolver.reference import source_location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.adapters.checkup.surroundings import Surroundings
    from skillwire.model.url import Url
    from skillwire.resolver.reference import IndexLocation
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import HttpResponse


def check_proxies(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Look for proxies in the environment."""
    yield from judge_proxies(surroundings.environment)


def check_policy(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Say what the address policy opens."""
    surroundings.policy()  # raises for an entry that cannot be read
    yield from judge_allow(surroundings.settings.allow)


def check_offline(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Say that sources are not asked, and which would be."""
    if surroundings.offline and surroundings.settings.sources:
        yield Diagnosis("ok", f"offline: not asked are {', '.join(surroundings.settings.sources)}")


def check_source(source: str, surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Look one source up in DNS, hold it against the address policy, and ask it for its index."""
    policy = surroundings.policy()
    location = source_location(source)
    url = parse_url(location.url)
    try:
        policy.check_url(url)
        addresses = known_addresses(url.host) or look_up(url.host)
        for address in addresses:
            policy.check_address(url, address)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    yield Diagnosis("ok", f"{source} leads to {', '.join(addresses)}")
    # A source that only the project names is asked without a credential, as every command does.
    authorization = _authorization(url, surroundings) if url.origin in policy.named else None
    begun = time.monotonic()
    try:
        answer, skills = _ask(location, policy, authorization)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    place = f", with the credential of {credential_place(url, surroundings.environment)}" if authorization else ""
    yield Diagnosis("ok", f"{source} lists {skills} skills, {milliseconds:.0f} ms{place}")
    if (skew := _skew(answer)) is not None:
        yield judge_skew(skew, source)


def _authorization(url: Url, surroundings: Surroundings) -> str | None:
    """Return what a command would send there in ``Authorization``; a stored token as it is, without renewing it."""
    if (token := find_token(url, surroundings.environment)) is not None:
        return token
    stored = open_store().find(url.origin)
    if stored is not None and stored.kind != "custom" and stored.header.lower() == "authorization":
        return stored.field_value
    return find_password(url, surroundings.environment)


def _ask(location: IndexLocation, policy: AddressPolicy, authorization: str | None) -> tuple[HttpResponse, int]:
    with SyncDriver(policy) as driver:
        for url in filter(None, (location.url, location.old_url)):
            answer = driver.run(fetch_index(url, authorization=authorization))
            if answer is not None:
                return answer, len(decode_index(answer.body, answer.url).entries)
    raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=Place(location.url))


def _skew(answer: HttpResponse) -> float | None:
    """Return how far this clock is ahead of the answer's; None when it does not say, or it comes out of a cache."""
    try:
        date = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):  # a server need not say the time, and then there is nothing to compare
        return None
    return None if "age" in answer.headers else time.time() - date.timestamp()
