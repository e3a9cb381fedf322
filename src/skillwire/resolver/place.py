"""Which folders a skill goes into, for which agents. Pure: which agents are in use is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.errors import UsageError
from skillwire.model.install import Placement
from skillwire.resolver.agents import AGENTS, UNIVERSAL

if TYPE_CHECKING:
    from collections.abc import Sequence


def choose_agents(wanted: Sequence[str], in_use: Sequence[str]) -> tuple[str, ...]:
    """Return the agents to install for: those named, else the universal folder and the agents in use.

    Raises:
        UsageError: ``USAGE`` for an agent that is not in the table, with those that look alike.
    """
    for name in wanted:
        if name not in AGENTS and name != "*":
            raise _unknown(name)
    if "*" in wanted:
        return tuple(AGENTS)
    return tuple(dict.fromkeys(wanted or ("universal", *in_use)))


def place_for(agents: Sequence[str], *, for_user: bool, copy: bool) -> Placement:
    """Return where a skill's folder stands for ``agents``.

    With ``copy`` each agent's folder holds the files. Otherwise one does, the universal one unless it is the
    folder of a single other agent, and the others hold a link to it. ``for_user`` means the user's folders
    instead of a project's.
    """
    folders = list(dict.fromkeys(AGENTS[name].home if for_user else AGENTS[name].project for name in agents))
    if copy or len(folders) == 1:
        return Placement(tuple(folders))
    return Placement((UNIVERSAL,), tuple(folder for folder in folders if folder != UNIVERSAL))


def _unknown(name: str) -> UsageError:
    import difflib  # noqa: PLC0415  # only an error needs it

    close = difflib.get_close_matches(name, AGENTS, n=3)
    fix = f"Did you mean {' or '.join(close)}?" if close else f"Known agents: {', '.join(AGENTS)}."
    return UsageError("USAGE", f"there is no agent {ascii(name)[:60]}", fix=fix)
