"""``skillwire find --lan``: what the local network offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.cli.client_options import open_client, open_progress, ref_object, shortened, terminal_width
from skillwire.cli.lan_parts import lan_object, told_source, told_status, told_trust
from skillwire.cli.output import faint, strong
from skillwire.errors import SkillwireError
from skillwire.resolver.lan import ref_of, told_facts
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.model.lan import LanSkill

_ROOM = 24  # columns that a list of capabilities needs to say anything


def find_lan(output: Output, words: str, limit: int, *, offline: bool | None, refresh: bool) -> None:
    """Ask the local network, and print what it offers."""
    progress = open_progress(output)
    with (
        open_client(output, offline=offline, refresh=refresh, progress=progress) as client,
        progress.waiting("asking the local network"),
    ):
        found = client.lan.discover(words, refresh=refresh)
        may_use = client.lan.settings.use_unverified
    referred = {skill: reference for skill in found if (reference := _reference(output, skill))}
    found = list(referred)
    shown = found[:limit]
    hits = [{**ref_object(ref_of(skill)), "score": 0.0, "lan": lan_object(skill)} for skill in shown]
    output.document("find/1", {"query": words, "total": len(found), "hits": hits})
    _print(output, shown)
    if len(found) > limit:
        output.note(faint(f"{len(found) - limit} more; see them with --limit {len(found)}"))
    if not found:
        output.note(f"no skill on the local network matches {words!r}" if words else "nobody offers skills here now")
        output.hint("who is there:", "skillwire lan")
        return
    output.hint("look at one:", f"skillwire show {referred[shown[0]]}")
    able = next((skill for skill in shown if skill.capabilities and skill.is_usable), None)
    if able is not None:
        flag = "" if able.is_verified or may_use else " --unverified"
        output.hint("call one:   ", f"skillwire call lan:{able.capabilities[0]}{flag}")


def _reference(output: Output, skill: LanSkill) -> str:
    """Return what a user types to mean a skill; empty for one whose address nobody can type, of which it is said."""
    try:
        return reference_to(ref_of(skill))
    except SkillwireError as error:
        output.note(faint("left out "), f"{skill.skill_id} {skill.whose}: {error.message}")
        return ""


def _print(output: Output, skills: Sequence[LanSkill]) -> None:
    """Print a row each: name, version, how it is, who vouches, where it is, what it can do."""
    rows = [
        [
            strong(skill.skill_id),
            faint(skill.version),
            told_status(skill),
            told_trust(skill),
            told_source(skill),
            faint(skill.endpoint),
        ]
        for skill in skills
    ]
    widths = [max(len(cell.text) for cell in column) + 2 for column in zip(*rows, strict=True)]
    room = max(terminal_width() - sum(widths), _ROOM)
    output.table([*row, shortened(told_facts(skill), room)] for row, skill in zip(rows, skills, strict=True))
