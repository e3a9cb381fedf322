"""Builds the LAN parts of a server. Only servers on the LAN import this module, with mDNS and cryptography."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.adapters.executors.function import in_thread
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.files.lan_trust import local_authority
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.certificates import RenewalService
from skillwire.adapters.lan.connection_secrets import SceneSecrets
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.sandbox.sandbox import Sandbox
from skillwire.server.lan.health import HealthCheckLoop, HealthChecks, RunBlockers, SkillHealth
from skillwire.server.lan.service import LanService, PeerWarnings
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.adapters.executors.secrets import Secrets
    from skillwire.model.skill import Skill
    from skillwire.ports import Executor
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.components import Components, PublishedFunction


def make_lan(
    settings: LanSettings, parts: Components, functions: Sequence[PublishedFunction], secrets: Callable[[], Secrets]
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
        return LanAgent(fitting, health=health, on_trouble=PeerWarnings().log)

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
