"""A grant: somebody agreed that a skill's code runs here, with what it asks for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.action import Permissions


class Grant(NamedTuple):
    """What was agreed to: this artifact (``sha256:...``), with these permissions and no others.

    ``skill`` and ``version`` say to people what it was; ``by`` who agreed, ``at`` when, in seconds since the epoch.
    ``files`` are its files with their digests, so that the next grant can say what has changed.
    """

    digest: str
    permissions: Permissions
    skill: str
    version: str
    by: str
    at: float
    files: Mapping[str, str] = MappingProxyType({})
