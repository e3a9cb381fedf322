"""What an agent asks of the network: skills, and scenes, on all links at once.

The answers to a discovery name no agent, and anybody may answer; what we have heard of a skill ourselves, signed,
stands before what others say of it. So the skills that are found are those that are listed here, and those of the
answers that are not (:mod:`skillwire.adapters.lan.probes`). What one link has found enough of ends the question on the
others, too: on most of them nobody is. Spec: SDP §3.3, §4.2; specs §3.

What others tell of our groups, and is not seen here: a member that we cannot hear, or another choice of PRIMARY.

Whoever has let us into a scene tells what changes in its group, and nobody signs that. What we hear ourselves, signed,
says nearly all of it in the same moment, and is what counts; so a notice is told to the user only when a heartbeat
later the network looks otherwise from here. It is a hint then, and a reason to ask again. Spec: SDP §8.3; specs §3.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.probes import Prober, probe_unregistered
from skillwire.errors import SkillwireError, SourceLocation, ValidationError
from skillwire.model.lan import FoundVia, LanChange, LanMember, LanNotice, LanSkill, SceneResult, host_and_port
from skillwire.model.skill import Finding
from skillwire.protocols.skill_discovery.events import Discovered, SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.messages import ConnectionInfo, GroupEvent, SkillType
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.search import one_provider
from skillwire.resolver.sources.lan import unverified_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skillwire.adapters.lan.connection_secrets import SecretsClient
    from skillwire.adapters.lan.link import Link, Links
    from skillwire.adapters.lan.view import View
    from skillwire.errors import TrustError
    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret
    from skillwire.protocols.skill_discovery.events import GroupChanged, NodeEvent
    from skillwire.protocols.skill_discovery.health import Key
    from skillwire.protocols.skill_discovery.messages import SceneAnswer, SkillRecord
    from skillwire.protocols.skill_discovery.search import StopCondition
    from skillwire.protocols.skill_discovery.settings import LanSettings


_LOG: Final = logging.getLogger("skillwire.lan")
#: Seconds beyond its patience that a question may take, on a machine that does something else.
_SLACK: Final = 5.0
#: In which the providers of a scene register with an agent that has just started.
_GET_TO_KNOW: Final = 0.6


class Queries:
    """The questions of one agent that are under way.

    Args:
        settings: patience, and who is trusted.
        view: what is listed here.
    """

    def __init__(self, settings: LanSettings, view: View) -> None:
        self.links: Links | None = None
        self.secrets: SecretsClient | None = None
        self._settings = settings
        self._view = view
        self._prober = Prober()  # of what others tell, which must not make suspects wait
        self._searches: dict[tuple[str, str], asyncio.Future[Discovered]] = {}
        self._wishes: dict[tuple[str, str], asyncio.Future[SceneJoined | bool]] = {}

    def take(self, link: Link, event: NodeEvent) -> None:
        """Take what a link's node tells of a question."""
        if isinstance(event, Discovered):
            _answer(self._searches.pop((link.name, event.request), None), event)
        elif isinstance(event, SceneJoined):
            _answer(self._wishes.pop((link.name, event.scene), None), event)
        elif isinstance(event, SceneMissing):
            _answer(self._wishes.pop((link.name, event.scene), None), event.is_certain)

    def end(self) -> None:
        """Give up all."""
        waiting: list[asyncio.Future[Any]] = [*self._searches.values(), *self._wishes.values()]
        for future in waiting:
            future.cancel()

    async def stop(self) -> None:
        """Connect to nobody any more."""
        await self._prober.stop()

    async def discover(
        self,
        capabilities: tuple[str, ...],
        scenes: tuple[str, ...],
        types: tuple[str, ...],
        patience: float | None,
        enough: StopCondition | None = None,
    ) -> tuple[LanSkill, ...]:
        """Ask for skills; return what was found or is listed, those that may be called first.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when that cannot be asked.
        """
        patience = self._settings.figures.patience if patience is None else patience
        kinds = tuple(map(_kind, types))
        asked = []
        for link in self._open():
            future: asyncio.Future[Discovered] = asyncio.get_running_loop().create_future()
            request = link.node.end_agent.discover(
                moment(), capabilities=capabilities, scenes=scenes, skill_types=kinds, patience=patience, enough=enough
            )
            self._searches[link.name, request] = future
            link.act()
            asked.append((link, request, future))
        try:
            if asked:
                waiting = [future for _, _, future in asked]
                await asyncio.wait(waiting, timeout=patience + _SLACK, return_when=asyncio.FIRST_COMPLETED)
                for link, request, future in asked:
                    if not future.done():
                        link.node.end_agent.searches.suffice(request, moment())
                        link.act()
                await asyncio.wait(waiting, timeout=patience + _SLACK)
        finally:
            for link, request, _ in asked:
                self._searches.pop((link.name, request), None)
        found = [skill for skill in self._view.skills() if skill.fits(capabilities, scenes, types)]
        listed = self._view.places()
        told = {
            _place(one.record): (link, one)
            for link, _, future in asked
            if future.done() and not future.cancelled()
            for one in future.result().skills
            if _place(one.record) not in listed
        }
        found += await probe_unregistered(told.values(), self._prober)
        return tuple(sorted(found, key=lambda skill: skill.call_order))

    async def request_scene(
        self, scene: str, capabilities: tuple[str, ...], *, is_join: bool, use_unverified: bool
    ) -> SceneResult:
        """Ask for a scene on all links; the first that lets us in counts. Whoever is not let in wants it no more.

        Here alone it is decided who may provide it for us: where nobody may, the scene is left again.

        Raises:
            TrustError: ``DISC_004`` when nobody vouches for the provider, and unverified ones are not used.
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when that cannot be asked.
        """
        loop = asyncio.get_running_loop()
        asked: set[asyncio.Future[SceneJoined | bool]] = set()
        ours: set[asyncio.Future[SceneJoined | bool]] = set()
        is_certain, is_joined, figures = False, False, self._settings.figures
        ends = loop.time() + figures.patience + _SLACK
        try:
            for link in self._open():
                link.node.end_agent.want_scene(scene, capabilities, moment(), is_request=not is_join)
                _answer(self._wishes.pop((link.name, scene), None), False)
                future = self._wishes[link.name, scene] = loop.create_future()
                link.act()
                ours.add(future)
            asked |= ours
            while asked and loop.time() < ends:
                done, asked = await asyncio.wait(asked, timeout=ends - loop.time(), return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    if one.cancelled():
                        continue
                    if (joined := one.result()) and not isinstance(joined, bool):
                        result = await self._joined(scene, capabilities, joined, use_unverified=use_unverified)
                        is_joined = True
                        return result
                    if joined is True and not is_certain:  # others are not waited for as long as if all were silent
                        is_certain, ends = True, min(ends, loop.time() + figures.not_found_patience)
        finally:
            self._wishes = {key: future for key, future in self._wishes.items() if future not in ours}
            is_wanted_again = any(wanted == scene for _, wanted in self._wishes)
            if not is_joined and not is_wanted_again:
                self.leave_scene(scene)
        return SceneResult(scene, is_missing=is_certain)

    def leave_scene(self, scene: str) -> None:
        """Leave a group, wherever we are in it."""
        for link in self.links or ():
            link.node.end_agent.leave_scene(scene)

    async def _joined(
        self, scene: str, capabilities: tuple[str, ...], joined: SceneJoined, *, use_unverified: bool
    ) -> SceneResult:
        answer = joined.answer
        provider = self._provider(scene, capabilities, answer, use_unverified=use_unverified)
        if provider is None:  # we have heard of nobody yet, and have them register with us
            enough = one_provider(self._settings.figures, use_unverified=use_unverified)
            await self.discover((), (scene,), (), _GET_TO_KNOW, enough)
            provider = self._provider(scene, capabilities, answer, use_unverified=use_unverified)
        if provider is None and not use_unverified:
            raise self._unverified(scene, answer)
        info, skill = answer.connection_info, answer.skill_info
        host, port = (info.host, info.port) if provider is None else (provider.host, provider.port)
        if provider is not None:
            is_of_it = _is_named(answer, provider) and (joined.is_verified or not provider.is_verified)
            info = info if is_of_it else ConnectionInfo("http", host, port)  # somebody else's word, or of another
        secret, no_key = await self._key_of(provider, scene)
        if secret is not None:  # whose certificate was seen is believed before anybody's datagram
            how = secret.base_path, secret.auth_type, secret.auth_header
            protocol = "https" if info.protocol == "https" else "http"  # a key is not to be sent in clear for that
            info = ConnectionInfo(protocol, host, port, *how)
        told: dict[str, str | int] = {
            "protocol": info.protocol,
            "host": host,
            "port": port,
            "basePath": info.base_path,
            "authType": info.auth_type,
            "authHeader": info.auth_header,
            "endpoint": host_and_port(host, port),
        }
        if secret is not None:
            told |= {"apiKey": secret.api_key, "expiresAt": secret.expires_at}
        return SceneResult(
            scene,
            answer.group_id,
            told,
            *((skill.skill_id, skill.version, skill.capabilities) if provider is None else _facts(provider)),
            self._members(scene, answer, provider),
            no_key=no_key,
        )

    async def _key_of(self, provider: LanSkill | None, scene: str) -> tuple[ConnectionSecret | None, Finding | None]:
        """Return the short-lived key that a provider hands out to us; or why it does not, though it could."""
        if provider is None or self.secrets is None:
            return None, None
        try:
            key = next((found for link in self._open() if (found := link.key_of(provider)) is not None), None)
            return await self.secrets.ask_provider(provider, scene, key=key), None
        except SkillwireError as error:  # what is public is there without a key
            _LOG.info("no key for %s: %s", scene, error)
            place = error.place or SourceLocation(provider.endpoint)
            message = f"no key for the scene {scene}: {error.message}"
            return None, Finding(error.code, "note", message, place, error.diagnostics().fix)

    def _provider(
        self, scene: str, capabilities: tuple[str, ...], answer: SceneAnswer, *, use_unverified: bool
    ) -> LanSkill | None:
        """Return who provides a scene for us, as it has registered with us; None when we have heard of nobody.

        Anybody may have answered; where the member is that an answer leads to, and what it can do, it has signed, and
        that counts. Whom we may not use makes room for the first of the group whom we trust: who has answered may trust
        others, or nobody. Whoever cannot be called now makes room for all who can: an answer may be old.
        """
        named = [
            one
            for one in self._heard(_named(answer))
            if (use_unverified or one.is_verified) and one.fits(capabilities, (scene,), ())
        ]
        if found := next((one for one in named if one.is_usable), None):
            return found
        group = self._heard((one.agent_id, one.skill_id) for one in self._view.scene(scene).members)
        trusted = (one for one in group if one.is_verified and one.fits(capabilities, (scene,), ()))
        return next(chain(trusted, named), None)

    def _members(self, scene: str, answer: SceneAnswer, provider: LanSkill | None) -> tuple[LanMember, ...]:
        """Return who is in a group: as we rank them where we list all that are told, or have chosen otherwise."""
        told = tuple(LanMember(one.agent_id, one.skill_id, one.role) for one in answer.members)
        ours = self._view.scene(scene).members
        is_known = {one[:2] for one in told} <= {one[:2] for one in ours}
        is_other = provider is not None and [(provider.agent_id, provider.skill_id)] != _named(answer)[:1]
        return ours if is_known or is_other else told

    def _unverified(self, scene: str, answer: SceneAnswer) -> TrustError:
        """Return why nobody may provide a scene for us."""
        info, name = answer.connection_info, answer.skill_info.skill_id
        refused = [one for one in self._heard(_named(answer)) if not one.is_verified]
        endpoint = refused[0].endpoint if refused else host_and_port(info.host, info.port)
        return unverified_scene(scene, name, endpoint, is_heard=bool(refused))

    def _heard(self, keys: Iterable[Key]) -> Iterator[LanSkill]:
        """Return those of some skills that have registered with us."""
        found = map(self._view.skill, keys)
        return (one for one in found if one is not None and one.found_via is not FoundVia.MDNS)

    def _open(self) -> Iterable[Link]:
        return self.links.open_links() if self.links is not None else ()


def _named(answer: SceneAnswer) -> list[Key]:
    """Return the members that an answer leads to: of the skill that it names."""
    return [(one.agent_id, one.skill_id) for one in answer.members if one.skill_id == answer.skill_info.skill_id]


def _is_named(answer: SceneAnswer, provider: LanSkill) -> bool:
    return (provider.agent_id, provider.skill_id) in _named(answer)


def _facts(skill: LanSkill) -> tuple[str, str, tuple[str, ...]]:
    return skill.skill_id, skill.version, skill.capabilities


def _kind(name: str) -> SkillType:
    try:
        return SkillType(name)
    except ValueError:
        kinds = ", ".join(SkillType)
        raise ValidationError("DATAGRAM_FIELD", f"no type of skills: {name[:80]!r}; there are {kinds}") from None


def _answer(future: asyncio.Future[Any] | None, value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _place(record: SkillRecord) -> tuple[str, str, int]:
    return record.skill_id, record.endpoint.host, record.endpoint.port


_WAITING: Final = 256


class UnconfirmedNotices:
    """The notices of one agent that wait until it has seen itself what they tell.

    Args:
        view: what is listed here.
        tell: is told what is not.
        now: says what time it is.
        patience: seconds in which it is seen here, too, if ever: one heartbeat.
    """

    def __init__(
        self, view: View, tell: Callable[[LanChange], object], now: Callable[[], Moment], patience: float
    ) -> None:
        self._view = view
        self._tell = tell
        self._now = now
        self._patience = patience
        self._waiting: BoundedDict[tuple[str, ...], tuple[float, GroupChanged]] = BoundedDict(_WAITING)
        self._timer: asyncio.TimerHandle | None = None
        self._gone: BoundedDict[Key, None] = BoundedDict(_WAITING)  # from what is listed here

    def gone(self, key: Key) -> None:
        """Know that a skill is listed here no more."""
        self._gone.put(key, None)

    def take(self, event: GroupChanged) -> None:
        """Take what was told of a group; what it says of the same before counts no more."""
        about = _about(event)
        if event.event is GroupEvent.MEMBER_JOINED:
            self._gone.pop((event.agent_id, event.skill_id), None)
        self._waiting.put(about, (asyncio.get_running_loop().time() + self._patience, event))
        if self._timer is None:
            self._set_timer()

    def end(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._waiting.clear()

    def _set_timer(self) -> None:
        due, _ = next(iter(self._waiting.values()))  # the oldest stands first
        self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for about, (due, event) in list(self._waiting.items()):
            if due > now:
                break
            del self._waiting[about]
            self._check(event)
        if self._waiting:
            self._set_timer()

    def _check(self, event: GroupChanged) -> None:
        if not self._is_seen(event):
            about = event.scene, event.group_id, str(event.event), event.agent_id, event.skill_id, str(event.status)
            skill = self._view.skill((event.agent_id, event.skill_id))
            self._tell(LanChange("notice", self._now().wall, skill=skill, notice=LanNotice(*about)))

    def _is_seen(self, event: GroupChanged) -> bool:
        """Whether the network looks from here as it was told.

        Of each scene one notice at most is about its PRIMARY, for which all its providers are looked at.
        """
        if event.event is GroupEvent.PRIMARY_CHANGED:
            members = self._view.scene(event.scene).members
            return members[:1] == (LanMember(event.agent_id, event.skill_id, "PRIMARY"),)
        skill = self._view.skill(key := (event.agent_id, event.skill_id))
        if event.event is GroupEvent.MEMBER_LEFT:  # that it is not here says nothing where it never was
            return key in self._gone if skill is None else event.scene not in skill.scenes
        if skill is None or event.scene not in skill.scenes:
            return False
        return event.event is GroupEvent.MEMBER_JOINED or skill.status == event.status


def _about(event: GroupChanged) -> tuple[str, ...]:
    if event.event is GroupEvent.PRIMARY_CHANGED:
        return (event.scene,)
    return event.scene, event.agent_id, event.skill_id
