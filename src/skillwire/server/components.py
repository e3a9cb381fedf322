"""The parts of a server, which its routes, its LAN service and its standard input share, and what a protocol adds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from skillwire import limits
from skillwire.server.monitoring import ExecutionStats, Metrics
from skillwire.server.problems import Problem, problem_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from skillwire.adapters.lan.certificates import RenewalService
    from skillwire.errors import SkillwireError
    from skillwire.folder.functions import TypedFunction
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.catalog import Catalog
    from skillwire.model.skill import Skill
    from skillwire.ports import AnnouncedFileStore, UploadStore
    from skillwire.registry.accounts import Accounts
    from skillwire.registry.device_logins import DeviceLogins
    from skillwire.registry.packages import Registry
    from skillwire.server.auth.authentication import Authentication
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.dht import DhtService
    from skillwire.server.executions import Executions
    from skillwire.server.lan.service import LanService
    from skillwire.server.monitoring import ReadinessCheck
    from skillwire.server.namespace_proofs import NamespaceProofs
    from skillwire.server.revision import AccessViews
    from skillwire.server.routes.console import ExecutionsConsole
    from skillwire.server.routes.pages import SkillPages
    from skillwire.server.routing import Route
    from skillwire.server.rpc_methods import SkillListCache
    from skillwire.server.transfers import Downloads, Publications


class PublishedFunction(NamedTuple):
    """A function as it is published and called, and the health check that it names, if any."""

    prepared: PreparedSkill
    typed: TypedFunction
    health: Callable[[], object] | None = None

    @property
    def name(self) -> str:
        """The name of its skill."""
        return self.prepared.skill.name

    @property
    def digest(self) -> str:
        """The digest of its skill, as executions name it."""
        return str(self.prepared.skill.artifact.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryComponents:
    """The parts of a registry: its use cases, and what receives and sends the bytes of packages.

    ``leads`` is whether this server does some work for all servers of the database. ``watch`` calls its argument when
    another one has changed something.
    """

    registry: Registry
    publications: Publications
    uploads: UploadStore
    announced: AnnouncedFileStore
    downloads: Downloads
    proofs: NamespaceProofs
    accounts: Accounts
    device_logins: DeviceLogins
    leads: Callable[[str], Awaitable[bool]]
    watch: Callable[[Callable[[], object]], object]

    async def tidy(self) -> None:
        """Remove expired uploads, and large artifacts that publications left behind. Raises StorageError."""
        if not await self.leads("registry"):
            return
        await self.uploads.expire()
        await self.registry.store.remove_unowned(time.time() - limits.REGISTRY_UNOWNED_SECONDS)


@dataclass(slots=True, kw_only=True)
class Components:
    """The parts that serve skills over any transport. ``views`` and ``skills`` are caches of the current revision.

    ``count_servers`` counts those of a shared database, and ``resign`` leaves what this one does for all to another.
    ``packages`` is None for a server that publishes folders alone.
    """

    catalog: CatalogService
    authentication: Authentication
    executions: Executions
    configuration: ServerConfiguration
    publisher: str
    base_url: str
    views: AccessViews
    skills: SkillListCache
    ungranted: Callable[[Iterable[Skill]], Coroutine[Any, Any, list[str]]]
    readiness: ReadinessCheck
    resign: Callable[[], Awaitable[object]]
    count_servers: Callable[[], Awaitable[object]] | None = None
    packages: RegistryComponents | None = None

    @property
    def registry(self) -> Registry | None:
        """The use cases of the registry, if there is one."""
        return self.packages.registry if self.packages else None


@dataclass(slots=True, kw_only=True)
class Services(Components):
    """The parts of an HTTP server. ``close`` runs after its last response.

    ``is_local`` is whether it was published for this machine alone: other names and pages of other sites are refused.
    """

    stats: ExecutionStats
    pages: SkillPages
    console: ExecutionsConsole
    is_local: bool = False
    lan: LanService | None = None
    dht: DhtService | None = None
    authority: RenewalService | None = None
    interfaces: Sequence[Interface] = ()
    metrics: Metrics = field(default_factory=Metrics)
    clock: Callable[[], float] = time.monotonic
    close: list[Callable[[], Awaitable[object]]] = field(default_factory=list)


class Interface(NamedTuple):
    """An interface at which skills are called, for documents that list them: a path of the site, and the binding."""

    path: str
    binding: str


class StaticView(NamedTuple):
    """What a static site is made from: the skills that everyone may see and use, and the address of the site."""

    catalog: Catalog
    publisher: str
    base_url: str = ""


class Protocol(ABC):
    """A protocol that skills are published over. A row in :data:`skillwire.server.app.PROTOCOLS` adds one."""

    name = ""

    @abstractmethod
    def routes(self, services: Services) -> Sequence[Route]:
        """Return its rows of the route table."""

    def static_files(self, view: StaticView) -> Mapping[str, bytes]:  # noqa: ARG002  # for those that override it
        """Return this protocol's files of a static site, by paths in the site; without the files of single skills."""
        return {}

    def announce(self, services: Services) -> Sequence[Interface]:  # noqa: ARG002  # same
        """Return the interfaces at which its callers reach skills."""
        return ()

    def error_table(self, error: SkillwireError) -> Problem:
        """Return the response that reports ``error`` in the form of this protocol."""
        return problem_for(error)
