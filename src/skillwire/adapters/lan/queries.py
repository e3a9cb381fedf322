"""The queries of one agent: searches for skills and requests for scenes, on all links at once.

An answer to a search names no agent, and any peer may answer. A registration that this agent heard is signed, and
counts more than the answers of others. So a search returns the listed skills, and from the answers those that are not
listed, with the status UNKNOWN: a responder passes on all that it lists, so not even a certified one verifies them. A
skill that is answered at an IPv4 and at an IPv6 address of one network is one skill. When one link has enough, the
searches on the others end, too: most links have no agents. Spec: SDP §3.3, §4.2; specs §3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from skillwire.adapters.lan.connection_secrets import SecretsClient
from skillwire.adapters.lan.link import Link, Links
from skillwire.adapters.lan.probes import Prober
from skillwire.adapters.lan.view import View
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.model.execution import Moment
from skillwire.model.lan import (
    FoundVia,
    LanMember,
    LanSkill,
    SceneResult,
    host_and_port,
)
from skillwire.model.skill import Finding
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.credentials import ConnectionSecret
from skillwire.protocols.skill_discovery.health import Key
from skillwire.protocols.skill_discovery.messages import (
    ConnectionInfo,
    HealthStatus,
    Register,
    SceneAnswer,
    SkillRecord,
    SkillType,
)
from skillwire.protocols.skill_discovery.node import NodeEvent
from skillwire.protocols.skill_discovery.scenes import MEMBERS, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.search import Discovered, Found, StopCondition, one_provider
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.resolver.sources.lan import revoked, unreachable_scene, unverified_scene

_LOG: Final = logging.getLogger("skillwire.lan")
#: Seconds beyond its patience that a query may take on a busy machine.
_SLACK: Final = 5.0
#: Seconds in which the providers of a scene register with an agent that has just started.
_GET_TO_KNOW: Final = 1.5


class Queries:
    """The queries of one agent."""

    def __init__(self, settings: LanSettings, view: View, clock: Callable[[], Moment]) -> None:
        self.links: Links | None = None
        self.secrets: SecretsClient | None = None
        self.accepts = Prober().answers
        self._settings = settings
        self._view = view
        self._clock = clock
        self._searches: dict[tuple[str, str], asyncio.Future[Discovered]] = {}
        self._requests: dict[tuple[str, str], asyncio.Future[SceneJoined | bool]] = {}

    def take(self, link: Link, event: NodeEvent) -> None:
        """Take an answer from a link's node."""
        if isinstance(event, Discovered):
            _set_result(self._searches.pop((link.name, event.request), None), event)
        elif isinstance(event, SceneJoined | SceneMissing):
            answer = event if isinstance(event, SceneJoined) else event.is_certain
            _set_result(self._requests.pop((link.name, event.scene), None), answer)

    def end(self) -> None:
        """Cancel all queries."""
        for search in self._searches.values():
            search.cancel()
        for request in self._requests.values():
            request.cancel()

    async def discover(
        self,
        capabilities: tuple[str, ...],
        scenes: tuple[str, ...],
        types: tuple[str, ...],
        patience: float | None,
        enough: StopCondition | None = None,
    ) -> tuple[LanSkill, ...]:
        """Return the skills found or listed, callable ones first. Raises: ValidationError: the query is too long."""
        patience = self._settings.discovery.patience if patience is None else patience
        kinds = tuple(map(_skill_type, types))
        searches: list[tuple[Link, str, asyncio.Future[Discovered]]] = []
        for link in self._open():
            future: asyncio.Future[Discovered] = asyncio.get_running_loop().create_future()
            request = link.node.searches.discover(
                self._clock(),
                capabilities=capabilities,
                scenes=scenes,
                skill_types=kinds,
                patience=patience,
                enough=enough,
            )
            self._searches[link.name, request] = future
            link.act()
            searches.append((link, request, future))
        try:
            if searches:
                waiting = [future for _, _, future in searches]
                await asyncio.wait(waiting, timeout=patience + _SLACK, return_when=asyncio.FIRST_COMPLETED)
                for link, request, future in searches:
                    if not future.done():
                        link.node.searches.suffice(request, self._clock())
                        link.act()
                await asyncio.wait(waiting, timeout=patience + _SLACK)
        finally:
            for link, request, _ in searches:
                self._searches.pop((link.name, request), None)
        found = [skill for skill in self._view.skills() if skill.fits(capabilities, scenes, types)]
        answered = [
            (link, one)
            for link, _, future in searches
            if future.done() and not future.cancelled()
            for one in future.result().skills
        ]
        found += _unregistered(answered, self._view.registrations(), self._clock().wall)
        return tuple(sorted(found, key=lambda skill: skill.call_order))

    async def request_scene(
        self, scene: str, capabilities: tuple[str, ...], *, is_join: bool, use_unverified: bool
    ) -> SceneResult:
        """Request a scene on all links; the first answer counts. Raises: TrustError: ``DISC_004``; ValidationError."""
        answer = await self._ask_scene(scene, capabilities, is_join=is_join)
        if isinstance(answer, bool):
            return SceneResult(scene, is_missing=answer)
        return await self._joined(scene, capabilities, answer.answer, use_unverified=use_unverified)

    async def group_order(self, scene: str) -> list[Key]:
        """Return the first members of a scene's group in the order of the registry that answers first, if any."""
        answer = await self._ask_scene(scene, (), is_join=False, patience=self._settings.discovery.patience)
        return [] if isinstance(answer, bool) else [(one.agent_id, one.skill_id) for one in answer.answer.members]

    async def _ask_scene(
        self, scene: str, capabilities: tuple[str, ...], *, is_join: bool, patience: float | None = None
    ) -> SceneJoined | bool:
        """Return the first answer about a scene; without any, whether an agent said that there is no provider."""
        loop, discovery = asyncio.get_running_loop(), self._settings.discovery
        ours: set[asyncio.Future[SceneJoined | bool]] = set()
        is_certain, ends = False, loop.time() + (discovery.patience + _SLACK if patience is None else patience)
        try:
            for link in self._open():
                link.node.memberships.request(scene, capabilities, self._clock(), is_join=is_join)
                _set_result(self._requests.pop((link.name, scene), None), False)
                future = self._requests[link.name, scene] = loop.create_future()
                link.act()
                ours.add(future)
            waiting = ours
            while waiting and loop.time() < ends:
                timeout = ends - loop.time()
                done, waiting = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for answer in [one.result() for one in done if not one.cancelled()]:
                    if not isinstance(answer, bool):
                        return answer
                    if answer and not is_certain:  # one certain answer shortens the wait for others
                        is_certain, ends = True, min(ends, loop.time() + discovery.not_found_patience)
        finally:
            self._requests = {key: future for key, future in self._requests.items() if future not in ours}
            if not any(wanted == scene for _, wanted in self._requests):
                for link in self.links or ():
                    link.node.memberships.cancel(scene)
        return is_certain

    async def _joined(
        self, scene: str, capabilities: tuple[str, ...], answer: SceneAnswer, *, use_unverified: bool
    ) -> SceneResult:
        providers = self._providers(scene, capabilities, answer, use_unverified=use_unverified)
        named = _offering_members(answer)
        if not providers or (named and not any(self._heard(named))):  # a search has it register with us
            enough = one_provider(self._settings.discovery, use_unverified=use_unverified, named=named)
            await self.discover((), (scene,), (), _GET_TO_KNOW, enough)
            providers = self._providers(scene, capabilities, answer, use_unverified=use_unverified)
        info, skill = answer.connection_info, answer.skill_info
        if not providers:
            known = chain.from_iterable(link.node.ingress.revoked.items() for link in self._open())
            if agent_id := next((agent_id for peer, agent_id in known if without_zone(peer.host) == info.host), ""):
                raise revoked(agent_id, skill.skill_id, host_and_port(info.host, info.port))
        if not providers and not use_unverified:
            refused = [one for one in self._heard(_offering_members(answer)) if not one.is_verified]
            endpoint = refused[0].endpoint if refused else host_and_port(info.host, info.port)
            raise unverified_scene(scene, skill.skill_id, endpoint, is_heard=bool(refused))
        host, port, facts = info.host, info.port, (skill.skill_id, skill.version, skill.capabilities)
        provider = await self._accepting(scene, providers)
        if provider is None and not await self.accepts(host, port):
            raise unreachable_scene(scene, [host_and_port(host, port)])
        if provider is not None:
            host, port = provider.host, provider.port
            facts = provider.skill_id, provider.version, provider.capabilities
            is_named = (provider.agent_id, provider.skill_id) in _offering_members(answer)
            if not is_named or provider.is_verified:  # the answer is about another one, or less trusted
                protocol = "https" if is_named and info.protocol == "https" else "http"  # never downgrade
                info = ConnectionInfo(protocol, host, port)
        secret, no_key = await self._key_of(provider, scene, host_and_port(host, port))
        if secret is not None:  # TLS showed its certificate, which counts more than a datagram
            protocol = "https" if info.protocol == "https" else "http"  # else the key would be in clear
            info = ConnectionInfo(protocol, host, port, secret.base_path, secret.auth_type, secret.auth_header)
        connection: dict[str, str | int] = {
            "protocol": info.protocol,
            "host": host,
            "port": port,
            "basePath": info.base_path,
            "authType": info.auth_type,
            "authHeader": info.auth_header,
            "endpoint": host_and_port(host, port),
        }
        if secret is not None:
            connection |= {"apiKey": secret.api_key, "expiresAt": secret.expires_at}
        # Members are in the order of the registry that answered, unless we chose another provider than it named.
        is_other = provider is not None and [(provider.agent_id, provider.skill_id)] != _offering_members(answer)[:1]
        answered = tuple(LanMember(one.agent_id, one.skill_id, one.role) for one in answer.members)
        members = self._view.scene(scene).members if is_other else answered
        return SceneResult(scene, answer.group_id, connection, *facts, members, no_key=no_key)

    async def _key_of(
        self, provider: LanSkill | None, scene: str, endpoint: str
    ) -> tuple[ConnectionSecret | None, Finding | None]:
        """Return the short-lived key that a provider hands out, or why it failed to."""
        if self.secrets is None:
            return None, None
        if provider is None:
            message = f"no key for the scene {scene}: its provider did not register with this agent in time"
            fix = "Request the scene again in a moment."
            return None, Finding("DISC_005", "note", message, SourceLocation(endpoint), fix)
        try:
            key = next((found for link in self._open() if (found := link.key_of(provider)) is not None), None)
            return await self.secrets.ask_provider(provider, scene, key=key), None
        except SkillwireError as error:  # public skills need no key
            _LOG.info("no key for %s: %s", scene, error)
            place = error.place or SourceLocation(endpoint)
            message = f"no key for the scene {scene}: {error.message}"
            return None, Finding(error.code, "note", message, place, error.diagnostics().fix)

    def _providers(
        self, scene: str, capabilities: tuple[str, ...], answer: SceneAnswer, *, use_unverified: bool
    ) -> list[LanSkill]:
        """Return the providers of a scene that registered with us and may be used, the best first.

        Any peer may answer, so the signed registration of the named member decides where it is and what it can do. A
        member that may not be used, or cannot be called now, is replaced by the others of the group.
        """
        named = [
            one
            for one in self._heard(_offering_members(answer))
            if (use_unverified or one.is_verified) and one.fits(capabilities, (scene,), ())
        ]
        group = self._heard((one.agent_id, one.skill_id) for one in self._view.scene(scene).members)
        others = (one for one in group if (use_unverified or one.is_verified) and one.fits(capabilities, (scene,), ()))
        usable = sorted(chain((one for one in named if one.is_usable), others), key=lambda one: not one.is_verified)
        return list(dict.fromkeys((*usable, *named)))[:MEMBERS]

    async def _accepting(self, scene: str, providers: Sequence[LanSkill]) -> LanSkill | None:
        """Return the first provider whose endpoint takes a connection, None without any. Raises: ``DISC_006``."""
        for provider in providers:
            if await self.accepts(provider.host, provider.port):
                return provider
        if providers:
            raise unreachable_scene(scene, [one.endpoint for one in providers])
        return None

    def _heard(self, keys: Iterable[Key]) -> Iterator[LanSkill]:
        found = map(self._view.skill, keys)
        return (one for one in found if one is not None and one.found_via is not FoundVia.MDNS)

    def _open(self) -> Iterable[Link]:
        return self.links.open_links() if self.links is not None else ()


def _offering_members(answer: SceneAnswer) -> list[Key]:
    """Return the members of an answer that offer the skill that it names."""
    return [(one.agent_id, one.skill_id) for one in answer.members if one.skill_id == answer.skill_info.skill_id]


def _skill_type(name: str) -> SkillType:
    try:
        return SkillType(name)
    except ValueError:
        kinds = ", ".join(SkillType)
        raise ValidationError("DATAGRAM_FIELD", f"no type of skills: {name[:80]!r}; there are {kinds}") from None


def _set_result(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _unregistered(
    answered: Collection[tuple[Link, Found]], listed: Iterable[tuple[str, Register]], now: float
) -> list[LanSkill]:
    """Return the skills of answers that are not listed here.

    An answer of a listed agent about its own skill is about the listed one, at another address. An IPv4 endpoint stands
    for the same one by IPv6.
    """

    def same(link: str, one: Register | SkillRecord) -> tuple[str, str, int]:
        return link.rpartition("/")[0], one.skill_id, one.endpoint.port

    registered = [*listed]
    keys = {(one.agent_id, one.skill_id) for _, one in registered}
    known: list[tuple[str, Register | SkillRecord]] = [*registered]
    seen = {(one.skill_id, one.endpoint) for _, one in known}
    known += [(link.name, found.record) for link, found in answered]
    by_ipv4 = {same(*one) for one in known if ":" not in one[1].endpoint.host}
    skills = []
    for link, found in answered:
        record, endpoint = found.record, found.record.endpoint
        is_twice = (record.skill_id, endpoint) in seen or (":" in endpoint.host and same(link.name, record) in by_ipv4)
        seen.add((record.skill_id, endpoint))
        if is_twice or (found.agent_id, record.skill_id) in keys:
            continue
        what = record.skill_id, record.plain_version, found.skill_type, link.reached(endpoint.host), endpoint.port
        status = HealthStatus.UNHEALTHY if record.is_stale else HealthStatus.UNKNOWN
        facts = "", *what, record.capabilities, record.scenes
        skills.append(LanSkill(*facts, status.value, heard=now, is_stale=record.is_stale))
    return skills
