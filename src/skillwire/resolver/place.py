"""Which folders a skill goes into, for which agents. Pure: which agents are in use is an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.errors import UsageError
from skillwire.model.install import Placement
from skillwire.resolver.agents import AGENTS, UNIVERSAL
from skillwire.resolver.installed import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def choose_agents(wanted: Sequence[str], in_use: Sequence[str], *, for_user: bool) -> tuple[str, ...]:
    """Return the agents to install for: those named, else the universal folder and the agents in use.

    ``*`` means all, except those that are not in use and whose folder would show: a plain ``skills`` folder may be
    anything of the project's, so nothing is put there for an agent that nobody uses.

    Raises:
        UsageError: ``USAGE`` for an agent that is not in the table, with those that look alike.
    """
    for name in wanted:
        if name not in AGENTS and name != "*":
            raise _unknown(name)
    if "*" in wanted:
        return tuple(name for name in AGENTS if name in in_use or _folder(name, for_user=for_user).startswith("."))
    return tuple(dict.fromkeys(wanted or ("universal", *in_use)))


def place_for(agents: Sequence[str], *, for_user: bool, copy: bool) -> Placement:
    """Return where a skill's folder stands for ``agents``.

    With ``copy`` each agent's folder holds the files. Otherwise one does, the universal one unless it is the
    folder of a single other agent, and the others hold a link to it. ``for_user`` means the user's folders
    instead of a project's.
    """
    folders = list(dict.fromkeys(_folder(name, for_user=for_user) for name in agents))
    if copy or len(folders) == 1:
        return Placement(tuple(folders))
    return Placement((UNIVERSAL,), tuple(folder for folder in folders if folder != UNIVERSAL))


def _folder(name: str, *, for_user: bool) -> str:
    return AGENTS[name].home if for_user else AGENTS[name].project


def _unknown(name: str) -> UsageError:
    fix = did_you_mean(name, AGENTS) or f"Known agents: {', '.join(AGENTS)}."
    return UsageError("USAGE", f"there is no agent {ascii(name)[:60]}", fix=fix)
