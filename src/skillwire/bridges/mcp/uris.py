"""``skill://NAME/PATH``: the addresses of the files of skills, and of the index.

A URI is taken apart and its parts are looked up, the skill by its name and the file by its exact path in the skill's
list: no URI can mean anything outside of a skill. Spec: MCP Skills "Resource Mapping".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.skill import Skill, SkillFile

_SCHEME: Final = "skill://"
SKILL_MD: Final = "SKILL.md"
INDEX_URI: Final = f"{_SCHEME}index.json"
TEMPLATE: Final = f"{_SCHEME}{{name}}/{{+path}}"


class Target(NamedTuple):
    """What a URI means: a skill, and a path in it; the empty path is its root."""

    skill: Skill
    path: str

    @property
    def file(self) -> SkillFile | None:
        """The file at the path, if there is one."""
        return next((file for file in self.skill.files if file.path == self.path), None)


def uri_of(skill: Skill, path: str = SKILL_MD) -> str:
    """Return the URI of a file of a skill, or of a folder in it; of its root for the empty path."""
    return f"{_SCHEME}{skill.name}/{quote(path)}" if path else f"{_SCHEME}{skill.name}"


def find_target(uri: str, skills: Mapping[str, Skill]) -> Target | None:
    """Return what ``uri`` means among ``skills``, or None.

    Trust: ``uri`` is a stranger's.
    """
    if len(uri) > limits.URL_LENGTH or not uri.startswith(_SCHEME):
        return None
    name, _, path = uri.removeprefix(_SCHEME).partition("/")
    if name not in skills:
        return None
    try:
        return Target(skills[name], unquote(path, errors="strict"))
    except UnicodeDecodeError:
        return None
