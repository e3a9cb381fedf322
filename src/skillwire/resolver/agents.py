"""Where agents look for skills: one line an agent.

``universal`` is the folder that many agents read; an agent with ``project`` equal to it needs no folder of
its own inside a project. ``found_by`` is what tells, in a project or in the home folder, that the agent is in
use there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
