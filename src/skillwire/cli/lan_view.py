"""How skills, agents and scenes of the local network are printed, and the screen that shows them live."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Self

import click

from skillwire.cli.options import ago, plural
from skillwire.cli.output import Part, Styled, bold, dim, drawn, failure, nowrap, success, warning
from skillwire.errors import DecodeError, UsageError
from skillwire.model.lan import FoundVia, LanChange, LanScene, LanSkill, LanSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.documents import LanSkillObject, SceneObject
    from skillwire.cli.documents_run import CalledProvider
    from skillwire.model.ref import SkillRef
    from skillwire.resolver.sources.lan import Providers

Line = list["Part"]
_WIDE: Final = 72
_NAME: Final = 30
_LEAST_NAME: Final = 8
_STATUS: Final = 13
_SIGNS: Final = {"registered": "+", "left": "-", "evicted": "-"}
_WORDS: Final = {
    "registered": "is there",
    "updated": "was updated",
    "suspected": "is silent",
    "stale": "is silent, like many others",
    "left": "said goodbye",
    "evicted": "was silent for too long",
    "revoked": "was removed: its certificate was revoked",
    "crowded": "was replaced by a certified one",
    "error": "said goodbye after an error",
    "maintenance": "said goodbye for maintenance",
    "upgrade": "said goodbye for an upgrade",
}
#: What to do where no agent is heard; it takes the port.
UNHEARD: Final = "if there are some, let UDP port {} through their firewalls and yours, and run:"
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J"
_LEAVE: Final = "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"
_SIZE: Final = (80, 24)  # columns and lines of a terminal that does not report them

unverified_option = click.option(
    "--unverified",
    "use_unverified",
    is_flag=True,
    default=None,  # the settings decide
    help="Use skills on the local network even if their key is not certified.",
)


def check_names(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Reject invalid names of scenes, capabilities, skills and agents."""
    from skillwire.protocols.skill_discovery import codec, scenes  # noqa: PLC0415  # --help does without

    what = {"name": "SCENE", "scenes": "SCENE", "skill_id": "SKILL", "agent": "AGENT"}.get(parameter.name, "CAPABILITY")
    for name in (value,) if isinstance(value, str) else value:
        try:
            codec.read_identifier(name)
        except DecodeError:
            known = "; skillwire scene list lists the scenes" if what == "SCENE" else ""
            fix = f"Use letters, digits, hyphens, underscores and dots{known}."
            raise UsageError("USAGE", f"{what} {ascii(name)[:60]} is not a valid name", fix=fix) from None
        if what == "SCENE" and len(name) > scenes.LONGEST:
            message = f"SCENE {name[:20]}... is {len(name)} characters long"
            raise UsageError("USAGE", message, fix=f"Shorten it to {scenes.LONGEST} characters.")
    return value


def lan_object(skill: LanSkill) -> LanSkillObject:
    """Return a skill of the local network for ``--json``."""
    return {
        "agent_id": skill.agent_id,
        "skill_id": skill.skill_id,
        "skill_type": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": list(skill.capabilities),
        "scenes": list(skill.scenes),
        "status": skill.status,
        "trust": skill.trust,
        "found_via": skill.found_via,
        "freshness": skill.freshness,
        "heard_at": skill.heard,
        "stale": skill.is_stale,
    }


def provider_object(ref: SkillRef, providers: Providers) -> CalledProvider:
    """Return the provider of a call by capability, and the skipped ones, for ``--json``."""
    return {
        "skill": None if ref.lan is None else lan_object(ref.lan),
        "origin": ref.origin,
        "passed_over": [
            {
                "skill": None if one.ref.lan is None else lan_object(one.ref.lan),
                "origin": one.ref.origin,
                "code": one.error.code,
                "reason": one.error.message,
            }
            for one in providers.passed
        ],
    }


def scene_object(scene: LanScene) -> SceneObject:
    """Return a scene for ``--json``."""
    return {"scene": scene.name, "group_id": scene.group_id, "members": scene.members}


def status_text(skill: LanSkill) -> Styled:
    """Return the health of a skill as a word, with a question mark if it is stale or from the cache."""
    is_old = skill.is_stale or skill.found_via is FoundVia.CACHE
    word = f"{skill.status}?" if is_old else skill.status
    if skill.status == "HEALTHY" and not is_old:
        return success(word)
    return warning(word) if skill.is_usable else failure(word)


def trust_text(skill: LanSkill) -> Styled:
    """Return the trust of a skill as text."""
    styles = {"verified": success, "unverified": warning, "not known": dim, "revoked": failure}
    return styles[skill.trust](skill.trust)


def _flow(words: Sequence[str], columns: int) -> list[str]:
    lines: list[str] = []
    for number, word in enumerate(words):
        text = f"{word}," if number + 1 < len(words) else word
        if lines and len(lines[-1]) + 1 + len(text) <= columns:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def text_of(part: Part) -> str:
    """Return what a part prints, without its style."""
    return part if isinstance(part, str) else part.text


def fit(line: Line, columns: int) -> Line:
    """Return a line that is cut where the terminal ends."""
    parts: Line = []
    room = columns
    for part in line:
        text = text_of(part)
        if len(text) > room:
            cut = f"{text[: room - 1]}…" if room else ""
            parts.append(cut if isinstance(part, str) else part._replace(text=cut))
            break
        parts.append(part)
        room -= len(text)
    return parts


def _cell(text: str, width: int) -> str:
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def _pad(part: Styled, width: int) -> Styled:
    return part._replace(text=f"{part.text:<{width}}")


def picture(snapshot: LanSnapshot, columns: int, *, port: int, is_complete: bool = True) -> list[Line]:
    """Return the network as lines of at most ``columns``; only if ``is_complete`` does an empty one mean no skills."""
    lines = _head(snapshot, columns, port, is_complete=is_complete)
    name = _name_width(snapshot, columns)
    for block in _blocks(snapshot):
        lines += _block_lines(snapshot, block, columns, name)
    return [*lines, *scene_lines(snapshot.scenes, columns)]


def live_picture(
    snapshot: LanSnapshot,
    size: tuple[int, int],
    changes: Sequence[LanChange] = (),
    *,
    port: int,
    is_complete: bool = True,
) -> list[Line]:
    """Return what fits on a terminal of ``size`` (columns, lines), with the last changes at the bottom."""
    columns, height = size
    head = _head(snapshot, columns, port, is_complete=is_complete)
    foot: list[Line] = [[], *([change_text(change, columns) for change in changes] or [[dim("Ctrl-C stops")]])]
    room = height - len(head) - len(foot)
    blocks = _blocks(snapshot)
    needed = len(blocks) + sum(_height(skill, columns) for block in blocks for skill in block)
    if needed > room:
        return [*head, *_cut(snapshot, blocks, room, columns), *foot][:height]
    scenes = scene_lines(snapshot.scenes, columns)
    name = _name_width(snapshot, columns)
    lines = [line for block in blocks for line in _block_lines(snapshot, block, columns, name)]
    return [*head, *lines, *(scenes if needed + len(scenes) <= room else []), *foot]


def table(snapshot: LanSnapshot) -> list[Line]:
    """Return a row of cells for each skill, for output that goes to no terminal."""
    return [
        [
            skill.skill_id,
            skill.version,
            status_text(skill),
            trust_text(skill),
            heard(skill, snapshot.at),
            skill.agent_id,
            skill.endpoint,
            ",".join(skill.capabilities) or "-",
            ",".join(skill.scenes) or "-",
        ]
        for skill in snapshot.skills
    ]


def counted(snapshot: LanSnapshot) -> str:
    """Return the number of skills, agents and scenes as text."""
    agents = len({skill.agent_id for skill in snapshot.skills})
    scenes = f", {plural(len(snapshot.scenes), 'scene')}" if snapshot.scenes else ""
    return f"{plural(len(snapshot.skills), 'skill')} of {plural(agents, 'agent')}{scenes}"


def change_text(change: LanChange, columns: int) -> Line:
    """Return a change as a line; a narrow one omits the agent."""
    at = dim(time.strftime("%H:%M:%S", time.localtime(change.at)))
    if (skill := change.skill) is not None:
        word = _WORDS.get(change.reason) or _WORDS.get(change.kind, change.kind)
        what: Part = status_text(skill) if change.kind == "status" else word
        line: Line = [at, f" {_SIGNS.get(change.kind, ' ')} ", f"{skill.skill_id} of {skill.agent_id}", " ", what]
        if sum(len(text_of(part)) for part in line) > columns:
            line[2] = skill.skill_id
    elif change.scene is None:
        line = [at, "   some changes were missed"]
    elif not change.scene.members:
        line = [at, "   scene ", change.scene.name, ": ", "no provider"]
    else:
        first, *others = change.scene.members
        more = f", and {len(others)} more could" if others else ""
        provides = f"{first.skill_id} of {first.agent_id} provides it{more}"
        line = [at, "   scene ", change.scene.name, ": ", provides]
    return fit(line, columns)


def heard(skill: LanSkill, now: float) -> str:
    """Return the time since the last message of a skill, or ``mDNS`` if only its record was read."""
    if skill.found_via is FoundVia.MDNS:
        return "mDNS"
    if not skill.heard:
        return "never"
    return ago(now - skill.heard)


def _head(snapshot: LanSnapshot, columns: int, port: int, *, is_complete: bool) -> list[Line]:
    title = bold("local network")
    lines: list[Line]
    if not snapshot.skills and not is_complete:
        lines = [[title, dim("  listening ...")], []]
    elif not snapshot.skills:
        lines = [
            [title, "  no skills found"],
            [],
            [dim("offer your own:")],
            ["  ", nowrap("skillwire serve FOLDER --lan")],
            [dim(f"behind a firewall: allow UDP port {port}")],
            [dim("look for other causes: "), nowrap("skillwire doctor")],
        ]
    else:
        count = counted(snapshot)
        lines = [[title, f"  {count}"]] if len(f"local network  {count}") <= columns else [[title], [count]]
        statuses = Counter(skill.status for skill in snapshot.skills if skill.status != "HEALTHY")
        odd = [f"{number:,} {status}" for status, number in sorted(statuses.items())]
        lines += [[warning(text)] for text in _flow(odd, columns)]
        if snapshot.is_suspected:
            lines += [[failure("network problem suspected: ")], ["  many agents fell silent at once"]]
        name = _name_width(snapshot, columns)
        trust, able = (f"{'trust':<12}", "         can do") if columns >= _WIDE else ("", "")
        lines += [[], [dim(f"  {'skill':<{name}}  {'health':<{_STATUS}}{trust}{'heard':>6}{able}")]]
    return [fit(line, columns) for line in lines]


def _name_width(snapshot: LanSnapshot, columns: int) -> int:
    name = min(_NAME, max([_LEAST_NAME, *(len(skill.skill_id) for skill in snapshot.skills)]))
    return name if columns >= _WIDE else min(name, max(_LEAST_NAME, columns - 2 - 2 - _STATUS - 6))


def _blocks(snapshot: LanSnapshot) -> list[list[LanSkill]]:
    skills = sorted(snapshot.skills, key=lambda skill: (skill.agent_id, skill.skill_id))
    return [list(block) for _, block in groupby(skills, key=lambda skill: skill.agent_id)]


def _block_lines(
    snapshot: LanSnapshot, block: list[LanSkill], columns: int, name: int, most: int | None = None
) -> list[Line]:
    """Return the lines of an agent and of its skills, or the first of them."""
    agent = block[0]
    where = agent.endpoint if len({skill.endpoint for skill in block}) == 1 else agent.host
    own = [dim("  this machine")] if agent.agent_id == snapshot.agent_id else []
    lines: list[Line] = [[bold(agent.agent_id), dim(f"  {where}"), *own]]
    for skill in block[:most]:
        row: Line = ["  ", _cell(skill.skill_id, name), "  ", _pad(status_text(skill), _STATUS)]
        age = f"{heard(skill, snapshot.at):>6}"
        if columns >= _WIDE:
            stale = warning("  stale") if skill.is_stale else dim("       ")
            row += [_pad(trust_text(skill), 12), age, stale, "  ", dim(", ".join(skill.capabilities))]
            lines.append(row)
        else:
            lines.append([*row, age])
            if odd := _odd(skill):
                lines.append(["    ", warning(odd)])
    return [fit(line, columns) for line in lines]


def _height(skill: LanSkill, columns: int) -> int:
    return 1 if columns >= _WIDE or not _odd(skill) else 2


def _odd(skill: LanSkill) -> str:
    """Return what is unusual about a skill besides its health."""
    return ", ".join([*([] if skill.is_verified else [skill.trust_label]), *(["stale"] if skill.is_stale else [])])


def _cut(snapshot: LanSnapshot, blocks: list[list[LanSkill]], room: int, columns: int) -> list[Line]:
    """Return as many blocks as fit, those with an unhealthy skill first, and the number of the other skills."""
    lines: list[Line] = []
    left, name = len(snapshot.skills), _name_width(snapshot, columns)
    for block in sorted(blocks, key=lambda block: all(skill.status == "HEALTHY" for skill in block)):
        rest, most = room - 1 - len(lines), 0
        for skill in block:
            rest -= _height(skill, columns)
            if rest < 1:
                break
            most += 1
        if not most:
            break
        lines += _block_lines(snapshot, block, columns, name, most)
        left -= most
    return [*lines, fit([dim(f"and {left:,} more; skillwire lan --once lists all")], columns)]


def scene_lines(scenes: Sequence[LanScene], columns: int | None) -> list[Line]:
    """Return a line for each scene, unwrapped with ``columns`` None."""
    if not scenes:
        return []
    name = min(_NAME, max(len(scene.name) for scene in scenes))
    lines: list[Line] = [[], [bold("scenes")]]
    for scene in scenes:
        line: Line = ["  ", _cell(scene.name, name), "  "]
        lines.append(line)
        if not scene.members:
            line.append(warning("no provider"))
            continue
        first, *others = scene.members
        if columns is not None and columns < _WIDE:
            line += [first.skill_id, *([dim(f" + {len(others)}")] if others else [])]
        else:
            then = ", ".join(f"{member.skill_id} of {member.agent_id}" for member in others)
            line += [f"{first.skill_id} of {first.agent_id}", *([dim(f", then {then}")] if then else [])]
    return lines if columns is None else [fit(line, columns) for line in lines]


class Screen:
    """A context manager for the terminal's alternate screen, as pagers use it.

    Nothing is written without a change, and lines are overwritten in place, so the screen does not flicker.
    """

    def __init__(self) -> None:
        self._shown = ""

    @staticmethod
    def is_possible() -> bool:
        """Whether standard output goes to a terminal that can be drawn on."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @staticmethod
    def size() -> tuple[int, int]:
        """Return columns and lines."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return _SIZE
        return columns or _SIZE[0], lines or _SIZE[1]

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE)

    def draw(self, lines: Sequence[Sequence[Part]]) -> None:
        """Draw these lines, which must fit the terminal."""
        text = f"{_REST_OF_LINE}\r\n".join(map(drawn, lines))
        state = f"{self.size()}{text}"
        if state != self._shown:
            self._shown = state
            self._write(f"{_HOME}{text}{_REST_OF_LINE}{_REST}")

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
