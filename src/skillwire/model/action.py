"""What runs when a skill is called: which executor, with which permissions."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: ``python``: the skill's own code, in a sandbox. ``http``: an upstream API. ``human``: a task for a person.
#: ``function``: code of the publisher's own process.
ExecutorKind = Literal["python", "http", "human", "function"]
#: The executors that do what a skill's folder says, so that somebody has to grant it first.
GRANTED: Final[frozenset[ExecutorKind]] = frozenset({"python", "http"})


class Permissions(NamedTuple):
    """What an action may reach: https origins, and variables that hold secrets. Spec: SKP ``[permissions]``."""

    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the set in hexadecimal, the same for every order. A grant names it."""
        text = json.dumps([sorted(set(self.network)), sorted(set(self.secrets))], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class HealthCheck(NamedTuple):
    """How it is found out how a skill is: a URL is asked, or a function of its folder is called. Ours.

    Args:
        url: empty where a function is called.
        entrypoint, export: name the function, as they name that of an action.
        interval: seconds from the begin of one check to that of the next.
        timeout: seconds that one may take.
    """

    url: str = ""
    entrypoint: str = ""
    export: str = ""
    interval: int = 30
    timeout: int = 5


class Action(NamedTuple):
    """How a skill is executed.

    ``entrypoint`` and ``export`` name the function of a ``python`` action. ``settings`` is the table ``[executor]``
    as the folder has it. ``idempotent`` actions may be run again after a worker was lost. ``health`` is how it is found
    out whether it would succeed; None where the folder does not say.
    """

    executor: ExecutorKind
    entrypoint: str = ""
    export: str = "main"
    permissions: Permissions = Permissions()
    settings: Mapping[str, Any] = MappingProxyType({})
    idempotent: bool = False
    health: HealthCheck | None = None
