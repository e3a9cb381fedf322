"""Where the links and pictures of a skill's text lead on its page.

A skill's text names its own files by their relative paths. Those become links to the pages of these files;
anchors become anchors of the text; addresses on the web stay as they are and are marked. Everything else leads
nowhere: another path of this server is not the skill's to link, and other schemes do something.

Trust: each address is a stranger's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote

from skillwire.protocols.agent_skills.media import media_type
from skillwire.protocols.agent_skills.messages import WELL_KNOWN

if TYPE_CHECKING:
    from collections.abc import Collection

_ON_THE_WEB: Final = ("https://", "http://", "mailto:")


class Target(NamedTuple):
    """Where a link leads: a URL, relative to the skill's page unless ``is_external``."""

    url: str
    is_external: bool = False


class SkillLinks:
    """The links of one skill's text, as seen from its page at ``skills/NAME``.

    Args:
        name: of the skill.
        paths: of its files.
        anchor: put before the anchors of its text.
    """

    def __init__(self, name: str, paths: Collection[str], anchor: str) -> None:
        self._name = name
        self._paths = frozenset(paths)
        self._folders = {path[:index] for path in paths for index, letter in enumerate(path) if letter == "/"}
        self._anchor = anchor

    def target(self, href: str) -> Target | None:
        """Return where a link to ``href`` leads; None when nowhere."""
        if href.startswith("#"):
            return Target(f"#{self._anchor}{quote(unquote(href[1:]).lower())}") if len(href) > 1 else None
        if href.lower().startswith(_ON_THE_WEB):
            return Target(href, is_external=True)
        path = self._own(href)
        if path in self._paths:
            return Target(file_url(self._name, path))
        return Target("#files") if path in self._folders else None

    def picture(self, source: str) -> str | None:
        """Return the URL of a picture of the skill; None when ``source`` is none."""
        path = self._own(source)
        if path not in self._paths or not media_type(path).startswith("image/"):
            return None
        return f"../{WELL_KNOWN[1:]}/{self._name}/{quote_path(path)}"

    def _own(self, href: str) -> str | None:
        """Return the path within the skill that ``href`` means, when it is one."""
        path = unquote(href.partition("#")[0].partition("?")[0]).rstrip("/")
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if href.startswith("/") or ".." in parts:
            return None
        return "/".join(parts)


def file_url(name: str, path: str) -> str:
    """Return the URL of a file's page, relative to the page of its skill."""
    return f"{name}/files/{quote_path(path)}"


def quote_path(path: str) -> str:
    """Return a file's path as it stands in a URL."""
    return quote(path)
