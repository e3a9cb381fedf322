"""Builds the LAN parts of a server. Their modules are imported only by servers on the LAN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skillwire.adapters.executors.secrets import Secrets
    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.adapters.lan.certificates import RenewalService
    from skillwire.model.skill import Skill
    from skillwire.ports import Executor
    from skillwire.protocols.skill_discovery.messages import HealthStatus
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.components import Components, PublishedFunction
    from skillwire.server.lan.announcements import Agent
    from skillwire.server.lan.health import HealthCheckLoop
    from skillwire.server.lan.service import KeyServer, LanService


def make_lan(
    settings: LanSettings,
    parts: Components,
    functions: Sequence[PublishedFunction],
    *,
    secrets: Callable[[], Secrets],
) -> LanService:
    """Return what a server does on the local network.

    Args:
        settings: the operator's.
        parts: of the server.
        functions: that it publishes beside folders; some say how they are.
        secrets: returns those that skills are given.
    """
    from skillwire.server.lan.health import RunBlockers, SkillHealth  # noqa: PLC0415  # not needed at start-up
    from skillwire.server.lan.service import LanService  # noqa: PLC0415  # same

    executions = parts.configuration.executions

    def unset(names: Iterable[str]) -> list[str]:
        return secrets().find(names)[1]

    def check_sandbox() -> None:
        from skillwire.adapters.sandbox.sandbox import Sandbox  # noqa: PLC0415  # with the first skill of code

        Sandbox().check()

    def make_agent(fitting: LanSettings, health: Callable[[str], HealthStatus]) -> Agent:
        from skillwire.adapters.lan.agent import LanAgent  # noqa: PLC0415  # mDNS and cryptography
        from skillwire.server.lan.service import PeerWarnings  # noqa: PLC0415  # same

        return LanAgent(fitting, health=health, on_trouble=PeerWarnings().log)

    def make_secrets(fitting: LanSettings, skill_name: Callable[[str, str], str | None]) -> KeyServer:
        from skillwire.server.lan.certificates import SceneSecrets  # noqa: PLC0415  # cryptography

        return SceneSecrets(fitting, parts.authentication.tokens, skill_name)

    checks = {one.name: one.health for one in functions if one.health is not None}
    folders = make_check_rounds(parts, secrets) if executions.concurrency else None
    conditions = SkillHealth(RunBlockers(executions, parts.ungranted, unset, check_sandbox).find, checks, folders)
    return LanService(settings, parts.catalog, conditions, make_agent, make_secrets)


def make_check_rounds(parts: Components, secrets: Callable[[], Secrets]) -> HealthCheckLoop:
    """Return what has the skills of folders checked that say how. Arguments as of :func:`make_lan`."""
    from skillwire.server.lan.health import HealthCheckLoop, HealthChecks  # noqa: PLC0415  # not needed at start-up
    from skillwire.trust.address import AddressPolicy  # noqa: PLC0415  # same

    settings = parts.configuration.executions

    def python() -> Executor:
        from skillwire.adapters.executors.python import PythonExecutor  # noqa: PLC0415  # with the first check
        from skillwire.adapters.sandbox.resources import ResourceLimits  # noqa: PLC0415  # same

        return PythonExecutor(
            parts.catalog.blobs,
            secrets=secrets(),
            policy=AddressPolicy(allow=settings.allow),
            bounds=lambda seconds: ResourceLimits(seconds, output_bytes=limits.LAN_HEALTH_OUTPUT_BYTES),
        )

    def driver() -> AsyncDriver:
        from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # with the first check

        return AsyncDriver(AddressPolicy(allow=settings.allow))

    async def may_run(skill: Skill) -> bool:
        return settings.grant_all or not await parts.ungranted([skill])

    checks = HealthChecks(python, driver, may_run)
    return HealthCheckLoop(checks)


def make_authority(settings: LanSettings) -> RenewalService | None:
    """Return the authority that the settings name, or None.

    Raises:
        NotFoundError: ``CA_FOLDER``. ValidationError: ``LAN_TRUST``.
    """
    if not settings.authority:
        return None
    from skillwire.adapters.files.lan_trust import local_authority  # noqa: PLC0415  # few servers certify
    from skillwire.adapters.lan.certificates import RenewalService  # noqa: PLC0415  # same

    folder = local_authority(settings)
    return None if folder is None else RenewalService(folder)
