"""How skills, agents and scenes of the local network are printed, and the screen that shows them live."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

import click

from skillwire.cli.output import bold, dim, drawn, failure, nowrap, success, warning
from skillwire.errors import DecodeError, UsageError
from skillwire.model.lan import FoundVia

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from skillwire.cli.documents import LanSkillObject
    from skillwire.cli.documents_lan import MemberObject, SceneObject
    from skillwire.cli.documents_run import CalledProvider, SkippedProviderObject
    from skillwire.cli.output import Part, Styled
    from skillwire.model.lan import LanChange, LanMember, LanScene, LanSkill, LanSnapshot
    from skillwire.resolver.sources.lan import SkippedProvider
Line = list["Part"]
_WIDE: Final = 72
_NAME: Final = 30
_LEAST_NAME: Final = 8
_STATUS: Final = 13
_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
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
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J"
_LEAVE: Final = "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"
_COLUMNS: Final = 80
_LINES: Final = 24


def check_names(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Reject invalid names of scenes and capabilities."""
    from skillwire.protocols.skill_discovery.codec import read_identifier  # noqa: PLC0415  # same
    from skillwire.protocols.skill_discovery.scenes import LONGEST  # noqa: PLC0415  # same

    is_scene = parameter.name != "capabilities"
    for name in (value,) if isinstance(value, str) else value:
        try:
            read_identifier(name)
        except DecodeError:
            what = "SCENE" if is_scene else "CAPABILITY"
            fix = "Use letters, digits, hyphens, underscores and dots; skillwire scene list lists the scenes."
            raise UsageError("USAGE", f"{what} {ascii(name)[:60]} is not a valid name", fix=fix) from None
        if is_scene and len(name) > LONGEST:
            message = f"SCENE {name[:20]}... is {len(name)} characters long"
            raise UsageError("USAGE", message, fix=f"Shorten it to {LONGEST} characters.")
    return value


def unverified_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--unverified``, by default None: the settings decide."""
    return click.option(
        "--unverified",
        "use_unverified",
        is_flag=True,
        default=None,
        help="Use skills on the local network even if their key is not certified.",
    )(command)


def lan_object(skill: LanSkill) -> LanSkillObject:
    """Return a skill of the local network for ``--json``."""
    fields = {
        "agent_id": skill.agent_id,
        "skill_id": skill.skill_id,
        "skill_type": skill.skill_type,
        "endpoint": skill.endpoint,
        "capabilities": list(skill.capabilities),
        "scenes": list(skill.scenes),
        "status": skill.status,
        "trust": skill.trust,
        "found_via": str(skill.found_via),
        "heard_at": skill.heard,
        "stale": skill.is_stale,
    }
    return cast("LanSkillObject", fields)


def provider_object(skill: LanSkill, passed: list[SkippedProvider]) -> CalledProvider:
    """Return the provider of a call by capability, and the skipped ones, for ``--json``."""
    over: list[SkippedProviderObject] = [
        {"skill": lan_object(one.skill), "code": one.error.code, "reason": one.error.message} for one in passed
    ]
    return {"skill": lan_object(skill), "passed_over": over}


def scene_object(scene: LanScene) -> SceneObject:
    """Return a scene for ``--json``."""
    return {"scene": scene.name, "group_id": scene.group_id, "members": members_object(scene.members)}


def members_object(members: tuple[LanMember, ...]) -> list[MemberObject]:
    """Return the members of a group for ``--json``."""
    return [cast("MemberObject", member._asdict()) for member in members]


def status_text(skill: LanSkill) -> Styled:
    """Return how a skill is, in a word; that of one which is only remembered is stale."""
    word = f"{skill.status}?" if skill.is_stale else skill.status
    if skill.status == "HEALTHY":
        return success(word)
    return warning(word) if skill.is_usable else failure(word)


def trust_text(skill: LanSkill) -> Styled:
    """Return the trust of a skill as text."""
    looks = {"verified": success, "unverified": warning, "not known": dim}
    return looks[skill.trust](skill.trust)


def source_text(skill: LanSkill) -> Styled:
    """Return where a skill was heard of, in a word."""
    return dim(str(skill.found_via))


def flowing(words: Sequence[str], columns: int) -> list[str]:
    """Return words in lines, with commas between them."""
    lines: list[str] = []
    for number, word in enumerate(words):
        text = f"{word}," if number + 1 < len(words) else word
        if lines and len(lines[-1]) + 1 + len(text) <= columns:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def fit(line: Line, columns: int) -> Line:
    """Return a line that is cut where the terminal ends."""
    parts: Line = []
    room = columns
    for part in line:
        text = _text(part)
        if len(text) > room:
            cut = f"{text[: room - 1]}…" if room else ""
            parts.append(cut if isinstance(part, str) else part._replace(text=cut))
            break
        parts.append(part)
        room -= len(text)
    return parts


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part.text


def width_of(line: Line) -> int:
    """Return how many columns a line takes."""
    return sum(len(_text(part)) for part in line)


def cell(text: str, width: int) -> str:
    """Return a text that takes so many columns, cut or with spaces behind it."""
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def padded(part: Styled, width: int) -> Styled:
    """Return a word with spaces behind it, that has its look."""
    return part._replace(text=f"{part.text:<{width}}")


class Block(NamedTuple):
    """An agent and its skills; lines are made of those alone that are shown."""

    skills: list[LanSkill]
    is_own: bool
    now: float
    name: int
    columns: int

    @property
    def is_troubled(self) -> bool:
        """Whether one of the skills is not well."""
        return any(skill.status != "HEALTHY" for skill in self.skills)

    @property
    def height(self) -> int:
        """How many lines there are."""
        return 1 + sum(map(self._rows, self.skills))

    def fitting(self, room: int) -> int:
        """Return how many of its skills fit into ``room`` lines, below its own."""
        for number, skill in enumerate(self.skills):
            room -= self._rows(skill)
            if room < 1:
                return number
        return len(self.skills)

    def lines(self, skills: int | None = None) -> list[Line]:
        """Return its lines, with all of its skills or the first of them."""
        ends = {skill.endpoint for skill in self.skills}
        where = next(iter(ends)) if len(ends) == 1 else self.skills[0].host
        own = [dim("  this machine")] if self.is_own else []
        head = fit([bold(self.skills[0].agent_id), dim(f"  {where}"), *own], self.columns)
        rows = (_row(skill, self.now, self.name, self.columns) for skill in self.skills[:skills])
        return [head, *(line for row in rows for line in row)]

    def _rows(self, skill: LanSkill) -> int:
        return 1 if self.columns >= _WIDE or not _odd(skill) else 2


def picture(snapshot: LanSnapshot, columns: int, *, is_complete: bool = True) -> list[Line]:
    """Return the state of the network as lines of at most ``columns`` columns.

    Args:
        snapshot: the network.
        columns: of the terminal.
        is_complete: whether responses were collected, so that an empty result is meaningful.
    """
    head = _head(snapshot, columns, is_complete=is_complete)
    blocks = [line for block in _blocks(snapshot, columns) for line in block.lines()]
    return [*head, *blocks, *_scenes(snapshot.scenes, columns)]


def live_picture(
    snapshot: LanSnapshot, size: tuple[int, int], changes: Sequence[LanChange] = (), *, is_complete: bool = True
) -> list[Line]:
    """Return what fits on a terminal of ``size`` (columns, lines), with what has happened last below it."""
    columns, height = size
    head = _head(snapshot, columns, is_complete=is_complete)
    happened = [change_text(change, columns) for change in changes]
    foot: list[Line] = [[], *(happened or [[dim("Ctrl-C stops")]])]
    blocks = _blocks(snapshot, columns)
    scenes = _scenes(snapshot.scenes, columns)
    room = height - len(head) - len(foot)
    needed = sum(block.height for block in blocks)
    if needed > room:
        return [*head, *_cut(blocks, room, columns), *foot][:height]
    everything = [line for block in blocks for line in block.lines()]
    return [*head, *everything, *(scenes if needed + len(scenes) <= room else []), *foot]


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


def scene_lines(snapshot: LanSnapshot) -> list[Line]:
    """Return a line for each scene, unwrapped."""
    return _scenes(snapshot.scenes, None)


def counted(snapshot: LanSnapshot) -> str:
    """Return how much there is, in words."""
    agents = len({skill.agent_id for skill in snapshot.skills})
    parts = [f"{_number(len(snapshot.skills), 'skill')} of {_number(agents, 'agent')}"]
    parts += [_number(len(snapshot.scenes), "scene")] if snapshot.scenes else []
    return ", ".join(parts)


def change_text(change: LanChange, columns: int) -> Line:
    """Return a change as a line; a narrow one omits the agent."""
    at = dim(time.strftime("%H:%M:%S", time.localtime(change.at)))
    if change.skill is not None:
        word = _WORDS.get(change.reason) or _WORDS.get(change.kind, change.kind)
        what: Part = status_text(change.skill) if change.kind == "status" else word
        sign = _SIGNS.get(change.kind, " ")
        line: Line = [at, f" {sign} ", f"{change.skill.skill_id} of {change.skill.agent_id}", " ", what]
        if width_of(line) > columns:
            line[2] = change.skill.skill_id
        return fit(line, columns)
    if change.scene is not None:
        return fit([at, "   scene ", change.scene.name, ": ", _provided(change.scene)], columns)
    return fit([at, "   some changes were missed"], columns)


def heard(skill: LanSkill, now: float) -> str:
    """Return how long ago a skill was heard, in few letters; where it was only read of, that."""
    if skill.found_via is FoundVia.MDNS:  # its endpoint answers, which is no word of its own
        return "mDNS"
    if not skill.heard:
        return "never"
    seconds = max(0.0, now - skill.heard)
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds // size:.0f} {unit}"


def _head(snapshot: LanSnapshot, columns: int, *, is_complete: bool) -> list[Line]:
    if not snapshot.skills and not is_complete:
        return [fit([bold("local network"), dim("  listening ...")], columns), []]
    if not snapshot.skills:
        return [
            fit([bold("local network"), "  no skills found"], columns),
            [],
            fit([dim("offer your own:")], columns),
            fit(["  ", nowrap("skillwire serve FOLDER --lan")], columns),
            *([fit([dim("behind a firewall: allow UDP port 54321")], columns)]),
        ]
    statuses = Counter(skill.status for skill in snapshot.skills)
    count = counted(snapshot)
    is_short = len(f"local network  {count}") <= columns
    lines: list[Line] = [[bold("local network"), f"  {count}"]] if is_short else [[bold("local network")], [count]]
    odd = [f"{number:,} {status}" for status, number in sorted(statuses.items()) if status != "HEALTHY"]
    lines += [[warning(text)] for text in flowing(odd, columns)]
    if snapshot.is_suspected:
        lines += [[failure("network problem suspected: ")], ["  many agents fell silent at once"]]
    return [*(fit(line, columns) for line in lines), [], _titles(_name_width(snapshot.skills), columns)]


def _name_width(skills: Sequence[LanSkill]) -> int:
    return min(_NAME, max([_LEAST_NAME, *(len(skill.skill_id) for skill in skills)]))


def _blocks(snapshot: LanSnapshot, columns: int) -> list[Block]:
    skills = sorted(snapshot.skills, key=lambda skill: (skill.agent_id, skill.skill_id))
    name = _name_width(skills)
    return [
        Block(list(of_one), agent_id == snapshot.agent_id, snapshot.at, name, columns)
        for agent_id, of_one in groupby(skills, key=lambda skill: skill.agent_id)
    ]


def _titles(name: int, columns: int) -> Line:
    """Return the titles of the columns of :func:`_row`."""
    trust = f"{'trust':<12}" if columns >= _WIDE else ""
    able = "         can do" if columns >= _WIDE else ""
    width = name if columns >= _WIDE else _narrow_name(name, columns)
    return fit([dim(f"  {'skill':<{width}}  {'health':<{_STATUS}}{trust}{'heard':>6}{able}")], columns)


def _narrow_name(name: int, columns: int) -> int:
    return min(name, max(_LEAST_NAME, columns - 2 - 2 - _STATUS - 6))


def _row(skill: LanSkill, now: float, name: int, columns: int) -> list[Line]:
    status = status_text(skill)
    age = heard(skill, now)
    if columns >= _WIDE:
        cells: Line = [
            "  ",
            cell(skill.skill_id, name),
            "  ",
            padded(status, _STATUS),
            padded(trust_text(skill), 12),
            f"{age:>6}",
            warning("  stale") if skill.is_stale else dim("       "),
            "  ",
        ]
        return [fit([*cells, dim(", ".join(skill.capabilities))], columns)]
    name = _narrow_name(name, columns)
    line: Line = ["  ", cell(skill.skill_id, name), "  ", padded(status, _STATUS), f"{age:>6}"]
    odd = _odd(skill)
    below: list[Line] = [fit(["    ", warning(odd)], columns)] if odd else []
    return [fit(line, columns), *below]


def _odd(skill: LanSkill) -> str:
    """Return what is not as usual about a skill, beside its health."""
    return ", ".join([*([] if skill.is_verified else [skill.trust_label]), *(["stale"] if skill.is_stale else [])])


def _scenes(scenes: Sequence[LanScene], columns: int | None) -> list[Line]:
    if not scenes:
        return []
    name = max(len(scene.name) for scene in scenes)
    lines: list[Line] = [
        ["  ", cell(scene.name, min(name, _NAME)), "  ", *_provided_parts(scene, columns)] for scene in scenes
    ]
    return [[], [bold("scenes")], *(lines if columns is None else (fit(line, columns) for line in lines))]


def _provided_parts(scene: LanScene, columns: int | None) -> Line:
    if not scene.members:
        return [warning("no provider")]
    first, *others = scene.members
    if columns is not None and columns < _WIDE:
        return [first.skill_id, *([dim(f" + {len(others)}")] if others else [])]
    then = ", ".join(f"{member.skill_id} of {member.agent_id}" for member in others)
    return [f"{first.skill_id} of {first.agent_id}", *([dim(f", then {then}")] if then else [])]


def _provided(scene: LanScene) -> str:
    if not scene.members:
        return "no provider"
    first, *others = scene.members
    then = f", and {len(others)} more could" if others else ""
    return f"{first.skill_id} of {first.agent_id} provides it{then}"


def _cut(blocks: Sequence[Block], room: int, columns: int) -> list[Line]:
    """Return as many blocks as fit, those in trouble before the others, and how many skills are left out."""
    lines: list[Line] = []
    left = sum(len(block.skills) for block in blocks)
    for block in sorted(blocks, key=lambda block: not block.is_troubled):
        skills = block.fitting(room - 1 - len(lines))
        if not skills:
            break
        lines += block.lines(skills)
        left -= skills
    return [*lines, fit([dim(f"and {left:,} more; skillwire lan --once lists all")], columns)]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


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
            return _COLUMNS, _LINES
        return columns or _COLUMNS, lines or _LINES

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
