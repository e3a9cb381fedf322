"""Builds the parts of a server on the LAN and in the DHT. Only such servers import this module, with cryptography."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from skillwire import limits
from skillwire.adapters.dht.agent import DhtAgent
from skillwire.adapters.executors.function import in_thread
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.lan_trust import local_authority
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.lan.agent import AgentIdentity, LanAgent, load_agent_identity
from skillwire.adapters.lan.certificates import RenewalService
from skillwire.adapters.lan.connection_secrets import SceneSecrets
from skillwire.adapters.sandbox import Sandbox
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.model.skill import Skill
from skillwire.ports import Executor
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server.components import Components, PublishedFunction
from skillwire.server.dht import DhtService
from skillwire.server.lan.health import HealthCheckLoop, HealthChecks, RunBlockers, SkillHealth
from skillwire.server.lan.service import LanService, PeerWarnings
from skillwire.trust.address import AddressPolicy

_LOG: Final = logging.getLogger("skillwire.lan")


class SharedIdentity:
    """The identity of a server that is on the LAN and in the DHT, loaded by the part that starts first."""

    def __init__(self, settings: LanSettings) -> None:
        self._settings = settings
        self._loaded: AgentIdentity | None = None
        self._lock = threading.Lock()

    def load(self) -> AgentIdentity:
        """Return it. Raises: as ``load_agent_identity``."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load_agent_identity(self._settings, frozenset(Role))
            return self._loaded

    async def close(self) -> None:
        """Release the agent's name."""
        if self._loaded is not None and self._loaded.name is not None:
            self._loaded.name.let_go()


def make_dht(
    settings: LanSettings, parts: Components, lan: LanService | None, identity: SharedIdentity | None
) -> DhtService:
    """Return the DHT service of a server; ``lan`` and ``identity`` are None off the local network."""

    def make_agent() -> DhtAgent:
        return DhtAgent(settings, own=None if identity is None else identity.load(), on_trouble=_LOG.warning)

    background = parts.executions.service.background
    return DhtService(settings, parts.catalog, make_agent, base_url=parts.base_url, background=background, lan=lan)


def make_lan(
    settings: LanSettings,
    parts: Components,
    functions: Sequence[PublishedFunction],
    secrets: Callable[[], Secrets],
    identity: SharedIdentity | None,
) -> LanService:
    """Return the LAN service of a server; ``functions`` are those that it publishes beside folders."""
    executions = parts.configuration.executions
    policy = AddressPolicy(allow=executions.allow)

    def python() -> Executor:
        return PythonExecutor(
            parts.catalog.blobs,
            secrets=secrets(),
            policy=policy,
            bounds=lambda seconds: ResourceLimits(seconds, output_bytes=limits.LAN_HEALTH_OUTPUT_BYTES),
        )

    async def may_run(skill: Skill) -> bool:
        return executions.grant_all or not await parts.ungranted([skill])

    def make_agent(fitting: LanSettings, health: Callable[[str], HealthStatus]) -> LanAgent:
        own = None if identity is None else identity.load()
        logged = PeerWarnings()
        return LanAgent(fitting, health=health, on_trouble=logged.log, on_recovery=logged.log_recovery, own=own)

    blockers = RunBlockers(
        executions, parts.ungranted, lambda names: secrets().find(names)[1], lambda: Sandbox().check()
    )
    folders = None
    if executions.concurrency:
        folders = HealthCheckLoop(HealthChecks(python, partial(AsyncDriver, policy), may_run))
    checks = {one.name: one.health for one in functions if one.health is not None}
    health = SkillHealth(blockers.find, checks, folders, run_in_thread=in_thread)
    return LanService(
        settings,
        parts.catalog,
        health,
        make_agent,
        lambda fitting, skill_name: SceneSecrets(fitting, parts.authentication.tokens, skill_name),
        background=parts.executions.service.background,
    )


def make_authority(settings: LanSettings) -> RenewalService | None:
    """Return the authority that the settings name, or None. Raises NotFoundError (``CA_FOLDER``), ValidationError."""
    folder = local_authority(settings) if settings.authority else None
    return None if folder is None else RenewalService(folder)
