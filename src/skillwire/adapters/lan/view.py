"""The view: the registries of all links as one network.

A skill that is listed on several links is shown once, at its best address: on the first link, IPv4 before IPv6, unless
it fell silent there and not on another one. A change of one registry is a change of the network only when it changes
that. Scenes follow from the listed skills, in the order that all agents compute. Spec: SDP §2, §4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from skillwire.model.execution import Moment
from skillwire.model.lan import FoundVia, LanChange, LanScene, LanSkill, SkillChange, members_of
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.health import Change, ChangeKind, Key, ListedSkill
from skillwire.protocols.skill_discovery.messages import Register
from skillwire.protocols.skill_discovery.registry import Registry


class View:
    """The skills and scenes of several registries, as values of the model."""

    def __init__(self, on_change: Callable[[LanChange], object], now: Callable[[], Moment]) -> None:
        self._on_change = on_change
        self._now = now
        self._registries: dict[str, tuple[Registry, str]] = {}
        self._reported: dict[Key, LanSkill] = {}
        self._scenes: dict[str, LanScene] = {}
        self._dirty: set[str] = set()
        self._moved: dict[Key, Change] = {}
        #: The members of groups as a registry orders them, which knows who was there first.
        self.orders: Mapping[str, Sequence[Key]] = {}

    def add(self, link: str, registry: Registry, zone: str = "") -> None:
        """Add the registry of a link; ``zone`` is the interface, for link-local addresses."""
        self._registries[link] = registry, zone
        self._registries = dict(sorted(self._registries.items(), key=lambda item: item[0].rpartition("/")[::-1]))

    def remove(self, link: str) -> None:
        """Remove a registry: skills that it alone listed are gone, the others have another address."""
        registry, _ = self._registries.pop(link)
        for listed in tuple(registry):
            self.changed(Change(ChangeKind.EVICTED, listed, None))
        self.report_rest()

    def skill(self, key: Key) -> LanSkill | None:
        """Return a listed skill at its best address."""
        found = [
            (listed, zone) for registry, zone in self._registries.values() if (listed := registry.get(key)) is not None
        ]
        if not found:
            return None
        listed, zone = _best_record(found) if len(found) > 1 else found[0]
        return _lan_skill(listed, zone, self._now())

    def skills(self) -> tuple[LanSkill, ...]:
        """Return all skills, by agent and name."""
        keys = sorted({listed.key for registry, _ in self._registries.values() for listed in registry})
        return tuple(skill for key in keys if (skill := self.skill(key)) is not None)

    def registrations(self) -> Iterator[tuple[str, Register]]:
        """Return each link with its registrations and hints."""
        return ((link, one.registration) for link, (registry, _) in self._registries.items() for one in registry)

    def scenes(self) -> tuple[LanScene, ...]:
        """Return all scenes, by name."""
        names = {name for registry, _ in self._registries.values() for name in registry.scenes()}
        return tuple(scene for name in sorted(names) if (scene := self.scene(name)).members)

    def scene(self, name: str) -> LanScene:
        """Return a scene and its providers."""
        registries = [registry for registry, _ in self._registries.values()]
        keys = {one.key for registry in registries for one in registry.in_scene(name) if not one.is_hint}
        providers = [skill for key in keys if (skill := self.skill(key)) is not None and name in skill.scenes]
        ranks = {key: min(rank for one in registries if (rank := one.rank(key)) is not None) for key in keys}
        places = {key: place for place, key in enumerate(self.orders.get(name, ()))}

        def rank_in(one: LanSkill) -> tuple[object, ...]:
            *trust_and_health, since, key = ranks[one[:2]]
            return *trust_and_health, places.get(one[:2], len(places)), since, key

        return LanScene(name, scenes.group_id(name), members_of(providers, rank_in))

    def is_suspected(self) -> bool:
        """Return whether the network is suspected, on some link."""
        now = self._now().steady
        return any(registry.network_is_suspected(now) for registry, _ in self._registries.values())

    def changed(self, change: Change) -> None:
        """Take a change of one registry."""
        listed = change.listed
        before, after = self._reported.get(listed.key), self.skill(listed.key)
        for one in (change.before, change.after):
            if one is not None:
                self._dirty.update(one.registration.scenes)
        if after is not None and change.after is None and before is not None and not _becomes_stale(before, after):
            if after.is_usable:  # it may be leaving its other addresses, too
                self._moved[listed.key] = change
            return
        if after is not None:
            self._reported[listed.key] = after
            kind = _change_kind(before, after, change)
        else:
            kind = change.kind.value if before is not None else ""
            after = self._reported.pop(listed.key, before)
        if kind:
            reason = change.reason if kind in {"evicted", "left"} else ""
            self._on_change(LanChange(kind, self._now().wall, skill=after, reason=reason))

    def report_rest(self) -> None:
        """Report changed scenes, and skills that left one of their addresses; many changes are one."""
        moved, self._moved = self._moved, {}
        for change in moved.values():
            self.changed(change._replace(after=change.before))
        dirty, self._dirty = self._dirty, set()
        for name in sorted(dirty):
            scene = self.scene(name)
            if self._scenes.get(name, LanScene(name, scene.group_id, ())) == scene:
                continue
            if scene.members:
                self._scenes[name] = scene
            else:
                del self._scenes[name]
            self._on_change(LanChange("scene", self._now().wall, scene=scene))

    @property
    def has_more(self) -> bool:
        """Whether something is to be reported in a moment."""
        return bool(self._dirty or self._moved)


def _best_record(found: Sequence[tuple[ListedSkill, str]]) -> tuple[ListedSkill, str]:
    """Return the record with the best address: of the first link, unless it fell silent there and not on another."""
    registered = [one for one in found if not one[0].is_hint] or found
    first, *others = sorted(registered, key=lambda one: not one[0].is_verified)
    if first[0].health.is_usable:
        return first
    return next((one for one in others if one[0].health.is_usable and not one[0].health.is_suspect), first)


def _lan_skill(listed: ListedSkill, zone: str, now: Moment) -> LanSkill:
    message, health = listed.registration, listed.health
    host = message.endpoint.host
    host = f"{host}%{zone}" if zone and host.lower().startswith("fe80:") else host
    facts = message.agent_id, message.skill_id, message.version, str(message.skill_type), host, message.endpoint.port
    found_via = FoundVia.MDNS if listed.is_hint else FoundVia.MULTICAST
    heard = now.wall - (now.steady - health.heard)
    lists = message.capabilities, message.scenes
    return LanSkill(*facts, *lists, health.status.value, listed.is_verified, found_via, heard, health.is_stale)


def _becomes_stale(before: LanSkill, after: LanSkill) -> bool:
    """Return whether a skill is stale now, perhaps at another address: one link may list too few to suspect it."""
    return after.is_stale and not before.is_stale


def _change_kind(before: LanSkill | None, after: LanSkill, change: Change) -> Literal["", SkillChange]:
    """Return the kind of change for the network; empty for none."""
    if before is None:
        return "registered"
    if _becomes_stale(before, after):
        return "stale"
    if before.status != after.status:
        return "status"
    if before._replace(heard=after.heard, is_stale=after.is_stale) != after:
        return "updated"
    is_of_this = change.listed.registration.endpoint.host == without_zone(after.host)
    is_new = change.kind is ChangeKind.SUSPECTED and is_of_this and after.is_usable
    return "suspected" if is_new else ""
