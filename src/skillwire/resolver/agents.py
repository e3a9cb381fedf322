"""The folders where agents look for skills, and those that a skill is installed into.

Many agents read the folder ``universal``; an agent with ``project`` equal to it needs no folder of its own inside a
project. ``found_by`` exists in a project or home folder where the agent is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from skillwire.errors import UsageError, did_you_mean
from skillwire.model.ref import InstallLocation

UNIVERSAL: Final = ".agents/skills"


class Agent(NamedTuple):
    """One agent: its title and its folders, relative to a project and to the home folder."""

    title: str
    project: str
    home: str
    found_by: str


AGENTS: Final[dict[str, Agent]] = {
    "universal": Agent("Universal (.agents)", UNIVERSAL, UNIVERSAL, ".agents"),
    "amp": Agent("Amp", UNIVERSAL, ".config/agents/skills", ".config/amp"),
    "augment": Agent("Augment", ".augment/skills", ".augment/skills", ".augment"),
    "claude-code": Agent("Claude Code", ".claude/skills", ".claude/skills", ".claude"),
    "cline": Agent("Cline", UNIVERSAL, ".agents/skills", ".cline"),
    "codex": Agent("Codex", UNIVERSAL, ".codex/skills", ".codex"),
    "continue": Agent("Continue", ".continue/skills", ".continue/skills", ".continue"),
    "cursor": Agent("Cursor", UNIVERSAL, ".cursor/skills", ".cursor"),
    "droid": Agent("Droid", UNIVERSAL, ".factory/skills", ".factory"),
    "gemini-cli": Agent("Gemini CLI", UNIVERSAL, ".gemini/skills", ".gemini"),
    "github-copilot": Agent("GitHub Copilot", UNIVERSAL, ".copilot/skills", ".copilot"),
    "goose": Agent("Goose", ".goose/skills", ".config/goose/skills", ".goose"),
    "hermes": Agent("Hermes", ".hermes/skills", ".hermes/skills", ".hermes"),
    "junie": Agent("Junie", ".junie/skills", ".junie/skills", ".junie"),
    "kilo": Agent("Kilo Code", UNIVERSAL, ".kilocode/skills", ".kilocode"),
    "kimi": Agent("Kimi", UNIVERSAL, ".config/agents/skills", ".kimi"),
    "kiro": Agent("Kiro", ".kiro/skills", ".kiro/skills", ".kiro"),
    "openclaw": Agent("OpenClaw", "skills", ".openclaw/skills", ".openclaw"),
    "opencode": Agent("OpenCode", UNIVERSAL, ".config/opencode/skills", ".opencode"),
    "openhands": Agent("OpenHands", ".openhands/skills", ".openhands/skills", ".openhands"),
    "qwen-code": Agent("Qwen Code", ".qwen/skills", ".qwen/skills", ".qwen"),
    "roo": Agent("Roo Code", ".roo/skills", ".roo/skills", ".roo"),
    "trae": Agent("Trae", ".trae/skills", ".trae/skills", ".trae"),
    "warp": Agent("Warp", UNIVERSAL, ".agents/skills", ".warp"),
    "windsurf": Agent("Windsurf", ".windsurf/skills", ".codeium/windsurf/skills", ".windsurf"),
    "zed": Agent("Zed", UNIVERSAL, ".agents/skills", ".zed"),
}


def choose_agents(wanted: Sequence[str], in_use: Sequence[str], *, for_user: bool) -> tuple[str, ...]:
    """Return the agents to install for: those named, else the universal folder and the agents in use.

    ``*`` means all but unused agents with a visible folder: a plain ``skills`` folder may belong to the project.

    Raises UsageError (``USAGE``) for an unknown agent, with similar names.
    """
    wanted = (wanted,) if isinstance(wanted, str) else wanted
    for name in wanted:
        if name not in AGENTS and name != "*":
            fix = did_you_mean(name, AGENTS) or f"Known agents: {', '.join(AGENTS)}."
            raise UsageError("USAGE", f"there is no agent {ascii(name)[:60]}", fix=fix)
    if "*" in wanted:
        return tuple(name for name in AGENTS if name in in_use or _folder(name, for_user=for_user).startswith("."))
    return tuple(dict.fromkeys(wanted or ("universal", *in_use)))


def plan_placement(agents: Sequence[str], *, for_user: bool, copy: bool) -> InstallLocation:
    """Return the places of a skill's folder for ``agents``, in the user's folders or a project's.

    With ``copy`` each agent's folder holds the files. Otherwise one holds them, the universal one unless there is a
    single other folder, and the others link to it.
    """
    folders = list(dict.fromkeys(_folder(name, for_user=for_user) for name in agents))
    if copy or len(folders) == 1:
        return InstallLocation(tuple(folders))
    return InstallLocation((UNIVERSAL,), tuple(folder for folder in folders if folder != UNIVERSAL))


def _folder(name: str, *, for_user: bool) -> str:
    return AGENTS[name].home if for_user else AGENTS[name].project
