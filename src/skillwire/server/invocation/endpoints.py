"""Where skills are called that say it themselves: the URLs of a folder's ``descriptor.json`` that lead here.

A skill whose descriptor is made here is called at ``/skills/NAME/executions`` and followed at ``/executions/ID``. A
publisher's own descriptor may name other paths of the same site, and other methods, and they are answered. They are
looked up by the whole URL, so a descriptor that names another site claims nothing here; a path that the site itself
answers is never looked up. Spec: SSP §3.5.3, §5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import structlog

from skillwire.errors import SkillwireError
from skillwire.protocols.skill_sharing.messages import Method
from skillwire.protocols.skill_sharing.paths import EXECUTIONS, REGISTRY
from skillwire.protocols.skill_sharing.rules import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.skill import Skill
    from skillwire.server.invocation.offers import Offers

Purpose = Literal["invoke", "status", "result"]
_PREFIX: Final = f"{EXECUTIONS}/"


class Meant(NamedTuple):
    """What a URL is for: ``skill`` is the name of the one to invoke, ``execution_id`` what is asked about."""

    purpose: Purpose
    skill: str = ""
    execution_id: str = ""
    method: Method = Method.POST


class _Template(NamedTuple):
    before: str
    after: str
    purpose: Purpose

    def read(self, url: str) -> str | None:
        """Return the execution's ID in ``url``, or None."""
        if not url.startswith(self.before) or not url.endswith(self.after):
            return None
        name = url[len(self.before) : len(url) - len(self.after) or None]
        return name if name and "/" not in name else None


def usual_meaning(path: str) -> Meant | None:
    """Return what a path of ours is for, or None."""
    if path.startswith(_PREFIX):
        name, _, rest = path[len(_PREFIX) :].partition("/")
        if not name or rest not in {"", "result"}:
            return None
        return Meant("result" if rest else "status", execution_id=name)
    if path.startswith(f"{REGISTRY}/") and path.endswith(EXECUTIONS):
        name = path[len(REGISTRY) + 1 : -len(EXECUTIONS)]
        return Meant("invoke", skill=name) if name and "/" not in name else None
    return None


class Endpoints:
    """The endpoints that descriptors of a revision name."""

    def __init__(self, skills: Mapping[str, Skill], offers: Offers) -> None:
        self._urls: dict[str, Meant] = {}
        self._templates: dict[_Template, None] = {}
        for skill in skills.values():
            if skill.action is not None and skill.sharing is not None and skill.sharing.descriptor is not None:
                try:
                    self._add(skill, offers)
                except SkillwireError as error:
                    structlog.get_logger("skillwire").warning(
                        "a descriptor names no endpoint", skill=skill.name, why=str(error)
                    )

    def meaning(self, url: str) -> Meant | None:
        """Return what a URL is for, or None; without its query."""
        found = self._urls.get(url)
        if found is not None:
            return found
        for template in self._templates:
            name = template.read(url)
            if name is not None:
                return Meant(template.purpose, execution_id=name)
        return None

    def _add(self, skill: Skill, offers: Offers) -> None:
        endpoint = offers.descriptor(skill).endpoint
        self._urls.setdefault(endpoint.url.partition("?")[0], Meant("invoke", skill.name, method=endpoint.method))
        if endpoint.status_url:
            self._templates[_template(endpoint.status_url, "status")] = None
        if endpoint.result_url and endpoint.result_url != endpoint.status_url:
            self._templates[_template(endpoint.result_url, "result")] = None


def _template(url: str, purpose: Purpose) -> _Template:
    before, placeholder, after = url.partition(PLACEHOLDER)
    return _Template(before if placeholder else f"{before.rstrip('/')}/", after, purpose)
