"""The synchronous client, which the command line uses too: the standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

from skillwire.client.runner import SyncRunner
from skillwire.client.session import ClientSession
from skillwire.client.skill import RemoteSkill
from skillwire.resolver.references import endpoint_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from skillwire.client.calls import CallArguments
    from skillwire.client.lan import Lan
    from skillwire.client.rpc import RpcSkills
    from skillwire.client.runner import SyncHttp
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.install import LockedSkill, OriginRecord
    from skillwire.model.skill import Finding
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Verification
    from skillwire.resolver.plan import InstallPlan, InstallPolicy, UpdateComparison
    from skillwire.resolver.settings import Settings
    from skillwire.resolver.which import Resolution


class Client:
    """Finds, verifies and installs skills. A context manager; connections are kept between calls.

    Args:
        project: the folder whose ``skills.lock`` and agents' folders are meant.
        for_user: the user's own skills instead of a project's.
        tokens: origin (``https://example.com``) → token; beside those of the environment and ``~/.netrc``.
        settings: in place of those of the environment and the settings files.
        policy: what may be installed from where, in place of what the settings say.
        offline: use only what the cache holds.
        refresh: ask even where the cache holds a fresh answer.
        report: called with each finding: what was skipped or is doubtful, with place and fix.
        on_traffic: called with a host and 0 for each request, and with the size of each piece that arrives. It may
            be called from several threads.
    """

    def __init__(
        self,
        project: Path | str = ".",
        *,
        for_user: bool = False,
        tokens: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        policy: InstallPolicy | None = None,
        offline: bool | None = None,
        refresh: bool = False,
        report: Callable[[Finding], object] = lambda _: None,
        on_traffic: Callable[[str, int], object] = lambda *_: None,
    ) -> None:
        self._session = ClientSession(
            project,
            for_user=for_user,
            tokens=tokens or {},
            settings=settings,
            policy=policy,
            offline=offline,
            refresh=refresh,
            report=report,
            on_traffic=on_traffic,
        )
        self._runner = SyncRunner(self._session)
        self._lan: Lan | None = None

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    @property
    def root(self) -> Path:
        """The project, or the user's home: what the paths of an installed skill are relative to."""
        return self._session.root

    @property
    def driver(self) -> SyncHttp | None:
        """What holds the conversations; None until the first one. Tests set a simulated publisher."""
        return self._runner.driver

    @driver.setter
    def driver(self, driver: SyncHttp | None) -> None:
        self._runner.driver = driver

    @property
    def lan(self) -> Lan:
        """The local network: its skills and scenes, and what changes. Nothing is asked yet.

        Raises:
            ValidationError: ``DISCOVERY_CONFIGURATION`` for what the settings say of it.
        """
        if self._lan is None:
            from skillwire.client.lan import Lan  # noqa: PLC0415  # installing does without

            self._lan = Lan(self._session, self._runner)
        return self._lan

    def set_token(self, origin: str, token: str) -> None:
        """Send ``token`` with every request to ``origin`` from now on, and to no other.

        Raises:
            ValidationError: ``origin`` is not a URL such as ``https://example.com``.
            UsageError: ``token`` holds what no header may hold.
        """
        self._session.access.set_token(origin, token)

    def close(self) -> None:
        """Close the connections. The client may be used again, and then opens new ones."""
        try:
            if self._lan is not None:
                self._lan.close()
        finally:
            self._runner.close()

    def index(self, origin: str) -> list[RemoteSkill]:
        """Return the skills of an origin, or of whatever index or folder ``origin`` leads to.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``, ``SKILL_NOT_FOUND``. TrustError: ``DOWNGRADE``.
            FetchError: the network or the server failed. DecodeError, ValidationError: the index is malformed.
        """
        return [
            RemoteSkill(skill, self._session, self._runner) for skill in self._runner.run(self._session.resolve(origin))
        ]

    def show(self, reference: str, *, both: bool = False) -> RemoteSkill:
        """Return the one skill that ``reference`` means: ``example.com/name``, a URL, ``./folder`` or a bare name.

        Where Agent Skills Discovery lists it, Skill Sharing is asked only with ``both``; its facts are then in
        ``shared``.

        Raises:
            UsageError: ``REFERENCE`` when it means several, ``NO_SOURCES`` for a bare name without sources.
            NotFoundError: ``SKILL_NOT_FOUND`` with names that look alike; as :meth:`index` otherwise.
        """
        ref = self._runner.run(self._session.resolve_one(reference, both=both))
        return RemoteSkill(ref, self._session, self._runner)

    def which(self, reference: str, *, explain: bool = False) -> Resolution:
        """Find what ``reference`` means and how: every index that was asked, trust, what is installed, why it won.

        What goes wrong on the way is part of the answer. With ``explain`` both protocols of the origin are asked.

        Raises:
            UsageError: ``REFERENCE``.
        """
        return self._runner.run(self._session.which(reference, explain=explain))

    def find(
        self, query: str = "", origins: Sequence[str] | str = (), *, capability_type: str | None = None
    ) -> list[tuple[RemoteSkill, float]]:
        """Search the indexes of ``origins``, or of the configured sources; return skills and scores, best first.

        All skills, with the score 0, for an empty query. An origin that cannot be read is reported; when none can
        be, the first error is raised. With a ``capability_type`` (``plugin``, ``api``, ``knowledge``, ``task``) only
        what Skill Sharing lists as such.

        Raises:
            UsageError: ``NO_SOURCES``.
        """
        hits = self._runner.run(self._session.search(query, origins, capability_type))
        return [(RemoteSkill(skill, self._session, self._runner), score) for skill, score in hits]

    def sharing_document(self, url: str) -> bytes:
        """Return the bytes of a document of Skill Sharing as it is published, unread: for ``validate``.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``. FetchError: the network or the server failed.
        """
        return self._runner.run(self._session.sharing_document(url))

    def plan(self, *references: str, agents: Sequence[str] = (), copy: bool | None = None) -> InstallPlan:
        """Decide what :meth:`add` would do, and change nothing.

        Args:
            references: as a user would type them.
            agents: keys of :data:`skillwire.resolver.agents.AGENTS`, or ``*``; by default those of the settings,
                else the universal folder and the agents in use.
            copy: copies instead of links in the folders of several agents; by default as the settings say.

        Raises:
            UsageError: ``USAGE`` for an unknown agent, or two skills of one name. TrustError: ``ORIGIN_REFUSED``,
            ``DOWNGRADE``. As :meth:`index` otherwise.
        """
        return self._runner.run(self._session.plan(references, agents, copy=copy))

    def plan_locked(self, *names: str) -> InstallPlan:
        """Plan to install exactly what ``skills.lock`` says: these skills, or all. No index is asked.

        Raises:
            NotFoundError: ``LOCK_MISSING``; ``NOT_INSTALLED`` for a name that the lock does not have.
        """
        return self._runner.run(self._session.plan_locked(names))

    def plan_update(self, comparisons: Sequence[UpdateComparison]) -> InstallPlan:
        """Plan to install what has changed, by the answer of :meth:`compare`, where it stands now."""
        return self._runner.run(self._session.plan_update(comparisons))

    def apply(
        self,
        plan: InstallPlan,
        *,
        consent: bool = False,
        overwrite: bool = False,
        on_done: Callable[[], object] = lambda: None,
    ) -> InstallReport:
        """Do what a plan says: everything, or nothing.

        Args:
            plan: from :meth:`plan`, :meth:`plan_locked` or :meth:`plan_update`.
            consent: agree to ``plan.unknown_origins``, now and from now on.
            overwrite: replace ``plan.conflicts``.
            on_done: called after each skill that was fetched.

        Raises:
            TrustError: ``ORIGIN_UNKNOWN`` when consent is needed and not given; ``DIGEST_MISMATCH``,
            ``LOCK_MISMATCH``, and whatever is wrong with an archive.
            ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``. StorageError: the disk failed.
        """
        flow = self._session.apply(plan, consent=consent, overwrite=overwrite, on_done=on_done)
        return self._runner.run(flow)

    def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
    ) -> InstallReport:
        """Install skills: verified, all or nothing, recorded in ``skills.lock``.

        Arguments and errors are those of :meth:`plan` and :meth:`apply`, one after the other.
        """
        flow = self._session.add(references, agents, consent=consent, overwrite=overwrite, copy=copy)
        return self._runner.run(flow)

    def installed(self) -> list[LockedSkill]:
        """Return what ``skills.lock`` says is installed, by name."""
        return self._runner.run(self._session.installed())

    def verify(self, *names: str) -> Verification:
        """Compare what stands on disk, these skills or all, with ``skills.lock``, byte for byte.

        Raises:
            NotFoundError: ``NOT_INSTALLED``.
        """
        return self._runner.run(self._session.verify(names))

    def remove(self, *names: str) -> list[LockedSkill]:
        """Take skills away, whether or not their files were changed, and out of the lock; return what they were.

        Raises:
            NotFoundError: ``NOT_INSTALLED``; nothing is removed then.
        """
        return self._runner.run(self._session.remove(names))

    def compare(self, *names: str) -> list[UpdateComparison]:
        """Compare installed skills, these or all, with what their origins have now. Each index is asked once.

        An origin that cannot be read is a state of its skills, ``unreachable``, and no error.

        Raises:
            NotFoundError: ``NOT_INSTALLED``.
        """
        return self._runner.run(self._session.compare(names))

    def outdated(self, *names: str) -> list[UpdateComparison]:
        """Return those comparisons that are not ``current``; otherwise as :meth:`compare`."""
        return self._runner.run(self._session.outdated(names))

    def update(self, *names: str, consent: bool = False, overwrite: bool = False) -> InstallReport:
        """Bring installed skills, these or all, up to date with their origins.

        What is gone or cannot be reached stays as it is; :meth:`outdated` says which. Arguments and errors are those
        of :meth:`compare` and :meth:`apply`.
        """
        return self._runner.run(self._session.update(names, consent=consent, overwrite=overwrite))

    def trusted_origins(self) -> dict[str, OriginRecord]:
        """Return the origins that someone agreed to install from, with what is remembered of each."""
        return self._runner.run(self._session.trusted_origins())

    def revoke_trust(self, origin: str, *, dry_run: bool = False) -> list[str]:
        """Take back the consent to ``origin``, as a user would type it; return which origins that were.

        With ``dry_run`` nothing is changed. What is installed stays, and so does the memory that an origin gives
        digests.

        Raises:
            NotFoundError: ``ORIGIN_NOT_ACCEPTED``.
        """
        return self._runner.run(self._session.revoke_trust(origin, dry_run=dry_run))

    def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution:
        """Call the one skill that ``reference`` means; return its execution, which may have failed.

        The descriptor is fetched and checked first, then the inputs by it; nothing is sent when either is wrong. The
        call is sent again when the network fails, under one key, so that it is executed once.

        Args:
            reference: as a user would type it; or ``lan:CAPABILITY`` for any provider on the local network, as
                :meth:`Lan.call` says.
            inputs: by name; defaults are those of the descriptor.
            wait: until the execution has ended; otherwise only until it was accepted.
            timeout: seconds that it may take; sent to the provider, too. It may still run when they are over:
                ``is_final`` says so, and :meth:`result` goes on waiting.
            priority: ``low``, ``normal`` or ``high``.
            trace_id: identifies it across systems.
            idempotency_key: under which it is executed once, however often this is called; a new one each time unless
                given.
            caller_id: who calls; unless given, a name that is another one for each origin.
            caller_type: what the caller is: ``user``, ``service``, ``ifay``.
            consent: agree to use the credential of the endpoint's origin, where that is not the one of the reference.
            on_change: called with the execution when it was accepted, and at each new status.
            use_unverified: with ``lan:``, use a skill whose key is not certified; as the settings say unless given.

        Raises:
            ValidationError: ``VALIDATION_ERROR`` for inputs, with each fault in ``details``; ``VERSION_INCOMPATIBLE``,
            ``DESCRIPTOR``. TrustError: ``ENDPOINT_FOREIGN`` when consent is needed and not given.
            FetchError: ``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``CIRCUIT_OPEN``, and what the network and the
            provider say. As :meth:`show` otherwise.
        """
        if reference.startswith("lan:"):
            from skillwire.resolver.sources.lan import lan_capability  # noqa: PLC0415  # few calls are of the local network

            if (capability := lan_capability(reference)) is not None:
                return self.lan.call(capability, inputs, use_unverified=use_unverified, **options)
        return (self.show(reference)).call(inputs, **options)

    def execution(self, execution: str) -> RemoteExecution:
        """Ask how far an execution is, and what it gave: by its id, when it was called here, or its status URL.

        An id may be cut short to what no other call of here begins with.

        Raises:
            NotFoundError: ``EXECUTION_UNKNOWN`` for an id that is not remembered; ``SKILL_NOT_FOUND`` when the
            provider does not know it. UsageError: ``REFERENCE`` for an id that several have, or begin
            with.
            FetchError: the network or the provider failed. DecodeError, ValidationError: the answer is malformed.
        """
        return self._runner.run(self._session.calls.status(execution))

    def result(
        self,
        execution: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[RemoteExecution], object] = lambda _: None,
    ) -> RemoteExecution:
        """Wait until an execution has ended, or for ``timeout`` seconds; return it as it is then.

        Arguments and errors are those of :meth:`execution` and :meth:`call`.
        """
        return self._runner.run(self._session.calls.wait(execution, timeout, on_change))

    def cancel(self, execution: str) -> RemoteExecution:
        """Take an execution back; return it as it ended, which may be otherwise: see ``is_cancelled``.

        Raises what :meth:`execution` does.
        """
        return self._runner.run(self._session.calls.cancel(execution))

    def rpc(self, endpoint: str) -> RpcSkills:
        """Return the methods of an endpoint of the Skills Protocol, such as ``https://example.com/rpc``.

        Nothing is asked yet.

        Raises:
            UsageError: ``REFERENCE`` for what is no URL.
        """
        from skillwire.client.rpc import RpcSkills  # noqa: PLC0415  # installing does without

        return RpcSkills(endpoint_url(endpoint), self._session, self._runner)
