"""A file's page: its text with numbered lines, or, for what is no text or too large, where to download it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from skillwire import limits
from skillwire.protocols.agent_skills.media import media_type
from skillwire.protocols.agent_skills.messages import WELL_KNOWN
from skillwire.trust.hidden_text import neutralise
from skillwire.web.environment import render
from skillwire.web.links import file_url, quote_path

if TYPE_CHECKING:
    from skillwire.model.skill import Skill, SkillFile
    from skillwire.ports import BlobStore
    from skillwire.web.environment import Frame


def file_page(skill: Skill, file: SkillFile, blobs: BlobStore, frame: Frame) -> str:
    """Return the page as HTML. It may take a tenth of a second: not for the event loop."""
    lines: list[str] | None = None
    picture = media_type(file.path).startswith("image/")
    if file.size <= limits.PAGE_FILE_BYTES and not picture:
        lines = _lines(blobs.read(file.digest) or b"")
    many = lines is not None and len(lines) > limits.PAGE_FILE_LINES
    values: dict[str, Any] = {
        "skill": skill,
        "canonical": f"{frame.address}/skills/{file_url(skill.name, file.path)}",
        "file": file,
        "download": f"{WELL_KNOWN[1:]}/{skill.name}/{quote_path(file.path)}",
        "file_name": file.path.rpartition("/")[2],
        "picture": picture,
        "reason": _reason(file, many=many),
        "text": Markup(_numbered(lines)) if lines is not None and not many else None,  # noqa: S704  # lines are escaped
        "count": len(lines or ()),
    }
    return render("file.html", frame, values)


def _lines(content: bytes) -> list[str] | None:
    """Return the lines of a text; None for what is none."""
    if b"\0" in content:
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:  # no text: it can be downloaded
        return None
    shown = neutralise(text.removeprefix("\ufeff"))
    return shown.removesuffix("\n").split("\n") if shown else []


def _reason(file: SkillFile, *, many: bool) -> str:
    """Return why a file is not shown."""
    if many:
        return "Too many lines to be shown"
    return "Too large to be shown" if file.size > limits.PAGE_FILE_BYTES else "Not a text"


def _numbered(lines: list[str]) -> str:
    """Return a row for each line: a number that can be linked, and the text."""
    return "".join(
        f'<div id="L{number}"><a href="#L{number}" tabindex="-1">{number}</a><code>{escape(line)}</code></div>'
        for number, line in enumerate(lines, 1)
    )
