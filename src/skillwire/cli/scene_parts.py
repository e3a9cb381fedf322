"""How a scene that was joined is told: its provider, its group, and what changes there."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.lan_parts import lan_object, members_object, scene_object
from skillwire.cli.output import bad, doubtful, encode_document, faint, finding_object, good, strong, tell_end
from skillwire.errors import NotFoundError
from skillwire.model.lan import SECRET_KEYS
from skillwire.resolver.lan import silence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output, Part
    from skillwire.client.synchronous import Client
    from skillwire.errors import SkillwireError
    from skillwire.model.lan import LanChange, LanNotice, SceneResult
    from skillwire.protocols.skill_discovery.configuration import LanSettings

#: Why there is no key, told also to who has not asked for one: it does not work as its provider says.
_FAULTS: Final = frozenset({"DISC_005"})


def not_there(result: SceneResult, capabilities: Sequence[str], settings: LanSettings) -> SkillwireError:
    """Return why a scene was not joined: nobody has it with these capabilities, or nobody is there."""
    if result.is_missing:
        what = "capability" if len(capabilities) == 1 else "capabilities"
        able = f" with the {what} {' and '.join(capabilities)}" if capabilities else ""
        return NotFoundError("DISC_007", f"nobody on the local network provides the scene {result.scene}{able}")
    return silence(settings, result.scene)


class Joined:
    """Tells of a scene that was joined.

    Args:
        output: of the command.
        client: that joined.
        result: what it was told.
        words: of the command that joins it again: the scene, capabilities, and what was agreed to.
        show_secrets: whether keys are printed.
    """

    def __init__(
        self, output: Output, client: Client, result: SceneResult, *, words: Sequence[str], show_secrets: bool
    ) -> None:
        self._output, self._client, self._result = output, client, result
        self._words = words
        self._show_secrets = show_secrets

    def tell(self, *, follow: bool) -> None:
        """Print how the provider is reached, and, to ``follow``, what changes until Ctrl-C."""
        result = self._result
        document = {
            "scene": result.scene,
            "group_id": result.group_id,
            "skill_id": result.skill_id,
            "version": result.version,
            "capabilities": list(result.capabilities),
            "connection_info": dict(result.connection_info),
            "members": members_object(result.members),
            "no_key": None if result.no_key is None else finding_object(result.no_key),
        }
        if follow and self._output.as_json:
            _print_event({"event": "joined", **document})
        else:
            self._output.document("scene/1", document)
            self._print()
        if follow:
            self._follow()

    def _print(self) -> None:
        output, result = self._output, self._result
        output.line(good("joined "), strong(result.scene), faint(f"  {result.group_id}"))
        output.table([member.role, member.skill_id, faint(member.agent_id)] for member in result.members)
        output.line()
        rows = [("provider", f"{result.skill_id} {result.version}"), ("can do", ", ".join(result.capabilities))]
        rows += [(key, self._shown(key, value)) for key, value in result.connection_info.items() if value != ""]
        output.table([faint(label), value] for label, value in rows if value)
        if not SECRET_KEYS.isdisjoint(result.connection_info):
            if not self._show_secrets:
                output.hint("with its key:", f"skillwire scene join {' '.join(self._words)} --show-secrets")
        elif result.no_key is not None and (self._show_secrets or result.no_key.code in _FAULTS):
            output.finding(result.no_key)
        elif self._show_secrets:
            output.note(doubtful("no key: "), "the provider hands out none")

    def _shown(self, key: str, value: str | int) -> str:
        return "..." if key in SECRET_KEYS and not self._show_secrets else str(value)

    def _follow(self) -> None:
        self._output.note(faint("following what changes; Ctrl-C leaves the group"))
        try:
            for change in self._client.lan.listen():
                if self._is_ours(change):
                    self._tell_change(change)
        except BaseException as end:
            if isinstance(end, Exception):
                raise
            tell_end(f"left {self._result.scene}")
            if not isinstance(end, KeyboardInterrupt):  # another signal ends the command, which says so
                raise

    def _is_ours(self, change: LanChange) -> bool:
        if change.kind == "missed":
            return True
        scene = self._result.scene
        if change.notice is not None:
            return change.notice.scene == scene
        of_skill = change.skill is not None and scene in change.skill.scenes
        return of_skill or (change.scene is not None and change.scene.name == scene)

    def _tell_change(self, change: LanChange) -> None:
        output, skill, scene = self._output, change.skill, change.scene
        at = faint(f"{datetime.fromtimestamp(change.at).astimezone():%H:%M:%S}  ")
        if output.as_json:
            _print_event(
                {
                    "event": change.kind,
                    "at": change.at,
                    "reason": change.reason,
                    "skill": None if skill is None else lan_object(skill),
                    "scene": None if scene is None else scene_object(scene),
                    "notice": None if change.notice is None else change.notice._asdict(),
                }
            )
        elif change.notice is not None:
            output.line(at, doubtful("others say: "), *_told(change.notice), faint("; it does not look so from here"))
        elif scene is not None:
            first = next((member for member in scene.members if member.role == "PRIMARY"), None)
            backups = sum(member.role == "BACKUP" for member in scene.members)
            if first is None:
                output.line(at, bad("nobody provides it now"))
            else:
                output.line(at, strong("PRIMARY "), first.skill_id, faint(f" of {first.agent_id}; {backups} BACKUP"))
        elif skill is not None:
            style = good if skill.status == "HEALTHY" else doubtful
            where = faint(f"  {skill.agent_id} at {skill.endpoint}")
            why = faint(f"  {change.reason}" if change.reason else "")
            output.line(at, f"{change.kind} ", strong(skill.skill_id), " ", style(skill.status), where, why)
        else:
            output.line(at, doubtful("some changes were missed"))


def _told(notice: LanNotice) -> tuple[Part, ...]:
    """Return what others tell of a member, as the rest of a sentence."""
    states = {"MEMBER_JOINED": "has joined", "MEMBER_LEFT": "has left", "PRIMARY_CHANGED": "is PRIMARY"}
    return strong(notice.skill_id), f" of {notice.agent_id} ", states.get(notice.event, f"is {notice.status}")


def _print_event(fields: dict[str, Any]) -> None:
    """Print one JSON object as a line, at once."""
    click.echo(encode_document({"schema": "skillwire/scene-event/1", **fields}, indent=None))
