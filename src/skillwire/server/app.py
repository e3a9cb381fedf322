"""The composition of a server: its components, its route table, and the ASGI application.

:class:`~skillwire.server.middleware.RequestMiddleware` makes the context of each request, and the first row that
matches the path answers it; prepared responses are sent without the application (:mod:`skillwire.server.fastpath`). To
add a route, add a row to one of the functions that :func:`make_routes` names. To add a protocol, write a subclass of
:class:`~skillwire.server.components.Protocol`, and add its row to :data:`PROTOCOLS`.

The application runs alone, or mounted below any path of another one. Most frameworks send no lifespan events to mounted
applications, so it starts with the first request unless it was started before. Requests that arrive while the first
catalog is being loaded wait, up to a bound. Only this module and :mod:`skillwire.server.lan.compose` choose the
adapters of a server.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from skillwire.adapters.executors.function import FunctionExecutor
from skillwire.adapters.executors.http import HttpExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.atomic import check_state_directory, state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.failing_tasks import write_failing_tasks
from skillwire.adapters.files.loading import published_roots
from skillwire.adapters.files.published_folders import PublishedFolders
from skillwire.adapters.files.published_packages import PackageFeed
from skillwire.adapters.files.settings_file import own_discovery
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.http.connection import find_txt_records
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.adapters.stores import Stores, open_stores
from skillwire.bridges.listings import check_bridges, static_files
from skillwire.folder.publish import check_publisher
from skillwire.model.execution import RunSettings
from skillwire.model.url import check_base_url
from skillwire.registry.accounts import Accounts
from skillwire.registry.device_logins import DeviceLogins
from skillwire.registry.packages import Registry
from skillwire.server.account_pages import SignInPages
from skillwire.server.auth.authentication import Authentication
from skillwire.server.background import wait_for
from skillwire.server.catalog_service import CatalogService
from skillwire.server.components import Components, RegistryComponents, Services, StaticView
from skillwire.server.configuration import ServerConfiguration, load_configuration, load_credentials, use_local_defaults
from skillwire.server.execution_service import Dispatcher, log_publish_warnings
from skillwire.server.executions import ExecutionRoutes, Executions
from skillwire.server.log import MissingNames
from skillwire.server.middleware import RequestLog, RequestMiddleware, answer_http_exception, answer_problem
from skillwire.server.monitoring import ExecutionStats, ReadinessCheck
from skillwire.server.namespace_proofs import NamespaceProofs
from skillwire.server.problems import ProblemError
from skillwire.server.revision import AccessViews
from skillwire.server.routes.apm import ApmRegistry
from skillwire.server.routes.call_pages import CallPages
from skillwire.server.routes.clawhub import ClawHub
from skillwire.server.routes.console import ExecutionsConsole
from skillwire.server.routes.discovery import AgentSkills
from skillwire.server.routes.hosted_skills import HostedSkillsApi
from skillwire.server.routes.interop import Interop
from skillwire.server.routes.lan import SkillDiscovery
from skillwire.server.routes.mcp import Mcp
from skillwire.server.routes.package_pages import PackagePages
from skillwire.server.routes.pages import SkillPages
from skillwire.server.routes.registry import RegistryApi
from skillwire.server.routes.registry_accounts import RegistryAccounts
from skillwire.server.routes.rpc import SkillsRpcProtocol
from skillwire.server.routes.sharing import SkillSharing
from skillwire.server.routes.skill_center import SkillCenter
from skillwire.server.routes.system import system_routes
from skillwire.server.routing import RouteTable
from skillwire.server.rpc_methods import SkillListCache
from skillwire.server.transfers import Downloads, Publications
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

    from skillwire.model.catalog import Catalog
    from skillwire.model.digest import Digest
    from skillwire.model.execution import ExecutionSettings
    from skillwire.model.skill import ExecutorKind, Skill
    from skillwire.ports import BlobStore, Executor, RunBlobs
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.components import Protocol, PublishedFunction
    from skillwire.server.console_request import Sessions
    from skillwire.server.routing import Route

    StrPath = str | os.PathLike[str]

#: The protocols that skills are published over, in the order in which their rows are tried; rows that match every path
#: below theirs come last. A protocol of your own is served, described and written into static sites with one row::
#:
#:     PROTOCOLS.append(ToyProtocol())
PROTOCOLS: Final[list[Protocol]] = [
    SkillSharing(),
    SkillsRpcProtocol(),
    Mcp(),
    SkillDiscovery(),
    RegistryAccounts(),
    RegistryApi(),
    SkillCenter(),
    ClawHub(),
    HostedSkillsApi(),
    ApmRegistry(),
    Interop(),
    AgentSkills(),
]

#: Seconds between two removals of what uploads and publications of a registry left behind.
_TIDY_SECONDS: Final = 3600.0
#: Seconds between two looks whether the database answers, and for the changes of other servers, which also wake the
#: task that looks.
_FOLLOW_SECONDS: Final = 5.0
#: Seconds between two counts of the servers that share the limits of callers.
_COUNT_SECONDS: Final = 5.0


def make_routes(services: Services, protocols: Sequence[Protocol] = PROTOCOLS) -> list[Route]:
    """Return the route table; the first row that matches a path answers, whatever the method is.

    The server's own rows are ``system_routes`` (health, metrics, search, OpenAPI), ``console.routes``,
    ``ExecutionRoutes`` and ``pages.routes``; the others are those of the protocols.
    """
    routes = _tagged("Services", system_routes(services))
    for protocol in protocols:
        for route in _tagged(protocol.name, protocol.routes(services)):
            route.error_table = protocol.error_table
            routes.append(route)
    routes.sort(key=lambda route: route.path.endswith("{rest:path}"))  # rows that match every path below come last
    services.interfaces = [interface for protocol in protocols for interface in protocol.announce(services)]
    executions = ExecutionRoutes(services.executions, services.console, services.pages)
    accounts = services.packages.accounts if services.packages else None
    sign_in = SignInPages(
        services.authentication, services.console.sessions, services.configuration, accounts, services.base_url
    )
    return [
        *routes,
        *sign_in.routes(),
        *services.console.routes(),  # before those of executions, which would take ``/executions/live``
        *_tagged("Executions", executions.routes()),
        *_tagged("Pages", services.pages.routes()),
        executions.last_route(),  # paths that publishers' own descriptors name
    ]


def _tagged(tag: str, routes: Sequence[Route]) -> list[Route]:
    for route in routes:
        route.tag = tag
    return list(routes)


class Application(Starlette):
    """The ASGI application of one server; ``access_log`` is whether each request is logged.

    ``lan`` is None off the local network, ``dht`` without a node of the DHT.
    """

    def __init__(self, services: Services, *, access_log: bool, protocols: Sequence[Protocol] = PROTOCOLS) -> None:
        self.services = services
        self.catalog, self.lan, self.dht = services.catalog, services.lan, services.dht
        self._repeated: list[asyncio.Task[None]] = []
        self.log = RequestLog(services.metrics, is_on=access_log)
        super().__init__(
            middleware=[Middleware(RequestMiddleware, services=services, log=self.log)],
            exception_handlers=cast("Any", {ProblemError: answer_problem, HTTPException: answer_http_exception}),
        )
        self.router = RouteTable(make_routes(services, protocols), _lifespan)

    def reached_at(self, *addresses: tuple[str, int]) -> None:
        """Set the hosts and ports on which the server listens, for the LAN and the DHT; before the start."""
        for part in (self.lan, self.dht):
            if part is not None:
                part.reached_at(*addresses)

    async def startup(self) -> None:
        """Start the catalog, the LAN, the DHT and the executions; do not wait for the first revision."""
        self.services.catalog.start()
        if self.lan is not None:
            self.lan.start()
        if self.dht is not None:
            self.dht.start()
        await self.services.executions.resume()
        if self.services.count_servers is not None:
            self._repeat("servers", self.services.count_servers, _COUNT_SECONDS)
        if (packages := self.services.packages) is None:
            return
        self._repeat("registry", packages.tidy, _TIDY_SECONDS)
        changes = Dispatcher()
        packages.watch(changes.wake)
        self._repeat("database", self.catalog.look_for_packages, _FOLLOW_SECONDS, changes.wait)
        if code := await packages.accounts.prepare_first_operator():
            fix = "Enter the code at /account/setup, or run skillwire registry init ACCOUNT on this machine."
            structlog.get_logger("skillwire").warning("the registry has no operator", code=code, fix=fix)

    def _repeat(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        seconds: float,
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        repeat = self.services.executions.service.background.repeat
        self._repeated.append(asyncio.create_task(repeat(name, work, wait, seconds, lambda: False)))

    async def unregister(self, *, has_failed: bool = False) -> None:
        """Unregister from the LAN and the DHT while requests are still answered; ``has_failed`` after an error."""
        leaving = [] if self.lan is None else [self.lan.unregister(has_failed=has_failed)]
        leaving += [] if self.dht is None else [self.dht.unregister()]
        await asyncio.gather(*leaving)

    def close_streams(self) -> None:
        """End the event streams, because the server stops."""
        self.services.console.close()
        self.services.executions.close_streams()

    async def shutdown(self) -> None:
        """Stop watching the folders, and every part; return when they have ended."""
        await self.unregister()
        for task in self._repeated:
            task.cancel()
        for close in self.services.close:
            await close()
        if self.services.packages is not None:
            await self.services.packages.downloads.close()
            await self.services.packages.proofs.close()
        await self.services.executions.stop()
        await asyncio.to_thread(self.services.catalog.stop)
        await self.services.authentication.close()


@asynccontextmanager
async def _lifespan(application: Application) -> AsyncIterator[None]:
    await application.startup()
    yield
    await application.shutdown()


def create_app(
    folders: Iterable[StrPath],
    *,
    base_url: str | None = None,
    publisher: str = "local",
    poll: float | None = None,
    blobs: StrPath | None = None,
    access_log: bool = True,
    configuration: ServerConfiguration | StrPath | None = None,
    functions: Sequence[PublishedFunction] = (),
    lan: LanSettings | None = None,
    dht: LanSettings | None = None,
    registry: bool = False,
    store: str = "",
    protocols: Sequence[Protocol] = PROTOCOLS,
) -> Application:
    """Return an ASGI application that publishes the skills in ``folders`` and follows their changes.

    It runs alone under any ASGI server, or mounted below any path of another application. Where the framework sends it
    no lifespan events, it starts with the first request; call its ``startup()`` and ``shutdown()`` to decide yourself.

    Args:
        folders: folders of skills, or skills.
        base_url: put before the URLs in indexes, which are relative without it.
        publisher: the provider's part of identifiers, such as ``example-corp``.
        poll: seconds between two looks at the folders, instead of notifications of changes.
        blobs: the folder of the served bytes; in the user's state folder unless given.
        access_log: whether each request is logged, with structlog.
        configuration: a configuration, or its file. The default accepts API keys and signed requests, and runs nothing
            without a grant.
        functions: published beside the folders; see :class:`skillwire.Publisher`.
        lan: how the server takes part in the local network. It joins once ``application.reached_at((host, port))``
            was called, as :func:`skillwire.server.run.run` does.
        dht: how it takes part in the DHT, likewise; with ``lan`` too, both are one agent, of the settings of ``lan``.
        registry: whether it is a registry too, which serves the packages that are pushed to it beside the folders.
        store: the URL of a PostgreSQL database that several servers share; by default ``SKILLWIRE_STORE``, or the state
            folder.
        protocols: the protocols to serve.

    Raises:
        UsageError: ``FOLDER_MISSING``, ``PUBLISHER_FORM``, ``SERVER_CONFIGURATION``.
        ValidationError: ``URL`` when ``base_url`` is no http(s) URL.
        StorageError: ``SECRETS_FILE`` when the file of secrets cannot be used.
        NotFoundError: ``CA_FOLDER`` when the settings name an authority that is not there.
    """
    parts = make_components(
        folders,
        base_url=base_url,
        publisher=publisher,
        poll=poll,
        blobs=blobs,
        access_log=access_log,
        configuration=configuration,
        functions=functions,
        is_registry=registry,
        store=store,
    )
    return Application(make_services(parts, functions, lan, dht), access_log=access_log, protocols=protocols)


def site_files(bridges: Sequence[str], publisher: str, base_url: str) -> Callable[[Catalog], Mapping[str, bytes]]:
    """Return the function that makes the files of a static site: of every protocol, and of the ``bridges``."""
    check_bridges(bridges, check_publisher(publisher), base_url)

    def files_of(catalog: Catalog) -> Mapping[str, bytes]:
        view = StaticView(catalog, publisher, base_url)
        files = {path: content for one in PROTOCOLS for path, content in one.static_files(view).items()}
        return {**files, **static_files(bridges, catalog.skills.values(), publisher, base_url)}

    return files_of


def lan_settings(configuration: ServerConfiguration | StrPath | None) -> LanSettings:
    """Return the settings of the local network: those of a server's configuration, else the user's own.

    Raises as :func:`create_app`, and as :func:`skillwire.adapters.files.settings_file.own_discovery`.
    """
    return _configured(configuration).discovery or own_discovery()


def _configured(configuration: ServerConfiguration | StrPath | None) -> ServerConfiguration:
    if configuration is None or isinstance(configuration, ServerConfiguration):
        return configuration or ServerConfiguration()
    return load_configuration(Path(configuration))


def make_services(
    parts: Components, functions: Sequence[PublishedFunction], lan: LanSettings | None, dht: LanSettings | None
) -> Services:
    """Return the parts of an HTTP server; arguments and errors as of :func:`create_app`."""
    catalog, executions, site = parts.catalog, parts.executions, parts.configuration.site
    if site.featured:
        missing = MissingNames(
            "featured, but not published", lambda new: site.missing_from(new.public_view.listed_usable.skills)
        )
        catalog.follows.append(missing.log)
    service = authority = node = identity = None
    issuing = lan or parts.configuration.discovery or (own_discovery() if parts.packages is not None else None)
    if lan is not None or dht is not None or (issuing is not None and issuing.authority):
        from skillwire.server.lan import compose  # noqa: PLC0415  # mDNS and cryptography

        if lan is not None:
            identity = None if dht is None else compose.SharedIdentity(lan)
            secrets = partial(_secrets, parts.configuration.executions)
            service = compose.make_lan(lan, parts, functions, secrets, identity)
        if dht is not None:
            node = compose.make_dht(dht, parts, service, identity)
        if issuing is not None:
            authority = compose.make_authority(issuing)

    def is_public(skill: str) -> bool:
        return catalog.current is not None and skill in catalog.current.catalog.skills

    console = ExecutionsConsole(
        executions.service, parts.authentication, base_url=parts.base_url, has_skill=is_public, lan=service, dht=node
    )
    return Services(
        **{field.name: getattr(parts, field.name) for field in fields(parts)},
        stats=ExecutionStats(executions.service.ledger),
        pages=_make_pages(parts, console.sessions),
        console=console,
        lan=service,
        dht=node,
        close=[parts.resign, *([] if identity is None else [identity.close])],
        authority=authority,
    )


def _make_pages(parts: Components, sessions: Sessions) -> SkillPages:
    """Return the pages of a server, with those of packages where it is a registry."""
    blobs, answer_call = parts.catalog.blobs, CallPages(parts, sessions).answer
    if parts.packages is None:
        return SkillPages(blobs, answer_call)
    return PackagePages(blobs, parts.packages, sessions.find, answer_call)


def make_components(
    folders: Iterable[StrPath],
    *,
    base_url: str | None = None,
    publisher: str = "local",
    poll: float | None = None,
    blobs: StrPath | None = None,
    access_log: bool = True,
    configuration: ServerConfiguration | StrPath | None = None,
    functions: Sequence[PublishedFunction] = (),
    is_local: bool = False,
    is_registry: bool = False,
    store: str = "",
) -> Components:
    """Return the parts of a server of ``folders``; arguments and errors as of :func:`create_app`.

    With ``is_local`` the server serves only the program that started it: its executions stay in this process.
    """
    roots = published_roots(folders)
    if blobs is None:
        check_state_directory()
    served = FileBlobs(Path(blobs).absolute() if blobs is not None else state_directory() / "blobs")
    stores = open_stores(store)
    wait_for(stores.prepare())
    base = check_base_url(base_url)
    name = check_publisher(publisher)
    downloads = Downloads(stores.packages, served, stores.tokens, time.time)
    if is_registry:  # which serves nothing without its database, and recognises no token without its key
        wait_for(stores.packages.has_operator())
        stores.tokens()
    packages = make_registry(stores, downloads, name) if is_registry else None
    feed = PackageFeed(packages.registry, served, wait_for) if packages else None
    published = PublishedFolders(roots, name, served, [one.prepared for one in functions], feed)
    chosen = _configured(configuration)
    configured = use_local_defaults(chosen) if is_local else chosen
    settings, runs = configured.executions, configured.runs
    _secrets(settings).load()
    authentication = make_authentication(configured, stores, base)
    if packages:
        authentication.serve_registry(packages.registry, is_limited=configured.limits_registry)
    write_failing_tasks({})  # a killed process with this number, such as 1 in a container, could not take its back
    executions = Executions(
        configured,
        stores,
        served,
        authentication,
        make_executors(settings, stores, served, runs, functions),
        callbacks=AsyncDriver(AddressPolicy(allow=settings.allow_callbacks)),
        restore=downloads.restore,
        report=write_failing_tasks,
        base_url=base,
        access_log=access_log,
        functions=[one.digest for one in functions],
    )

    async def needed_blobs() -> set[Digest]:
        """Return the files of the skills that executions in the ledger have still to run."""
        ledger = executions.service.ledger
        skills = await ledger.open_skills() if await ledger.exists() else ()
        return {file.digest for skill in skills for file in skill.files}

    def warn(skills: Iterable[Skill]) -> None:
        if runs.execute_skill or not is_local:
            ungranted = None if settings.grant_all else stores.ungranted
            unset = (lambda names: _secrets(settings).find(names)[1]) if settings.concurrency else None
            wait_for(log_publish_warnings(skills, ungranted, unset))

    catalog = CatalogService(
        published,
        served,
        lambda: SearchIndex(served.directory),
        base_url=base,
        poll=poll,
        needed=lambda: wait_for(needed_blobs()),
        warn=warn,
        logs_all=is_local,
    )
    if packages is not None:
        packages.registry.changed = catalog.follow_packages
        packages.registry.withdrawn = catalog.follow_withdrawal
    return Components(
        catalog=catalog,
        authentication=authentication,
        executions=executions,
        configuration=configured,
        publisher=name,
        base_url=base,
        views=AccessViews(base),
        skills=SkillListCache(served),
        ungranted=stores.ungranted,
        resign=stores.resign,
        count_servers=stores.count_servers if stores.is_shared else None,
        readiness=ReadinessCheck(
            stores.database,
            time.monotonic,
            lambda: catalog.reached,
            packages.registry.store.revision if packages else None,
        ),
        packages=packages,
    )


def make_registry(stores: Stores, downloads: Downloads, publisher: str) -> RegistryComponents:
    """Return the parts of the registry in ``stores``; ``publisher`` is no namespace of it."""
    store = stores.packages
    registry = Registry(store, time.time, reserved={publisher})

    async def find_txt(name: str) -> Sequence[str]:
        return await asyncio.to_thread(find_txt_records, name)

    return RegistryComponents(
        registry=registry,
        publications=Publications(registry, stores.spool),
        uploads=stores.uploads,
        announced=stores.announced_files,
        downloads=downloads,
        proofs=NamespaceProofs(AsyncDriver(AddressPolicy()), find_txt),
        accounts=Accounts(store, stores.tokens, time.time),
        device_logins=DeviceLogins(stores.device_logins, stores.tokens, time.time),
        watch=stores.database.watch,
        leads=stores.leads,
    )


def _secrets(settings: ExecutionSettings) -> Secrets:
    return Secrets(os.environ, Path(settings.secrets_file) if settings.secrets_file else None)


def make_worker(configuration: ServerConfiguration, store: str = "") -> Executions:
    """Return the executions of ``skillwire worker``; ``store`` as of :func:`create_app`. Raises StorageError."""
    settings = configuration.executions
    _secrets(settings).load()
    check_state_directory()
    blobs = FileBlobs(state_directory() / "blobs")
    stores = open_stores(store)
    wait_for(stores.prepare())
    executors = make_executors(settings, stores, blobs, configuration.runs)
    authentication = make_authentication(configuration, stores)
    restore = Downloads(stores.packages, blobs, stores.tokens, time.time).restore
    write_failing_tasks({})  # a killed process with this number, such as 1 in a container, could not take its back
    return Executions(
        configuration,
        stores,
        blobs,
        authentication,
        executors,
        callbacks=AsyncDriver(AddressPolicy(allow=settings.allow_callbacks)),
        restore=restore,
        report=write_failing_tasks,
    )


def make_executors(
    settings: ExecutionSettings,
    stores: Stores,
    blobs: BlobStore,
    runs: RunSettings,
    functions: Sequence[PublishedFunction] = (),
) -> dict[ExecutorKind, Callable[[], Executor]]:
    """Return a maker for each kind of executor."""
    policy = AddressPolicy(allow=settings.allow)

    makers: dict[ExecutorKind, Callable[[], Executor]] = {
        "python": lambda: _python_executor(blobs, _secrets(settings), policy, stores.run_blobs(runs)),
        "http": lambda: HttpExecutor(AsyncDriver(policy), _secrets(settings).value),
    }
    if functions:
        makers["function"] = lambda: FunctionExecutor({one.name: one.typed for one in functions})
    return makers


def _python_executor(blobs: BlobStore, secrets: Secrets, policy: AddressPolicy, run_blobs: RunBlobs) -> Executor:
    from skillwire.adapters.executors.python import PythonExecutor  # noqa: PLC0415  # most servers only publish

    return PythonExecutor(blobs, secrets=secrets, policy=policy, run_blobs=run_blobs)


def make_authentication(settings: ServerConfiguration, stores: Stores, base_url: str = "") -> Authentication:
    """Return the authentication by the configuration and the tokens in ``stores``."""
    bearer = driver = sign_in = None
    if settings.oauth2 is not None:
        from skillwire.server.auth import oauth  # noqa: PLC0415  # few servers have one

        addresses = oauth.issuer_policy(AddressPolicy(), settings.oauth2)
        driver = AsyncDriver(addresses)
        credentials = load_credentials(settings, os.environ)
        bearer = oauth.BearerTokens(
            settings.oauth2, settings.grants, driver, credentials=credentials, base_url=base_url
        )
        if settings.oauth2.sign_in and credentials is not None:
            sign_in = oauth.OidcSignIn(settings.oauth2, credentials, driver, addresses)
    return Authentication(
        settings,
        stores.tokens,
        bearer=bearer,
        driver=driver,
        sign_in=sign_in,
        base_url=base_url,
        use_signature=stores.servers.use_signature if stores.is_shared else None,
        servers=lambda: stores.present,
    )
