"""The synchronous client, which the command line uses too: the standard library only."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from skillwire.client.runner import SyncRunner
from skillwire.client.session import ClientBase
from skillwire.client.skill import CallWatch, RemoteSkill
from skillwire.resolver.lockfile import remove, verify
from skillwire.resolver.references import endpoint_url
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from skillwire.client.calls import CallArguments
    from skillwire.client.lan import Lan
    from skillwire.client.registry import RemoteRegistry
    from skillwire.client.rpc import RpcSkills
    from skillwire.errors import SkillwireError
    from skillwire.folder.review import SkillReview
    from skillwire.model.ref import LockedSkill, OriginRecord, SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Verification
    from skillwire.resolver.plan import InstallPlan, UpdateComparison
    from skillwire.resolver.which import Resolution

T = TypeVar("T")


class Client(ClientBase[SyncRunner]):
    """Finds, verifies, installs and calls skills. A context manager; connections are kept between calls.

    All requests of a method end within its ``timeout`` seconds.

    Args:
        project: the folder of ``skills.lock`` and of the agents' folders.
        for_user: use the user's own skills instead of a project's.
        tokens: origin (``https://example.com``) → token; beside those of the environment and ``~/.netrc``.
        settings: in place of those of the environment and the settings files.
        policy: what may be installed from where, in place of the settings.
        offline: use only the cache.
        refresh: ask even where the cache holds a fresh answer.
        report: called with each finding: what was skipped or is doubtful, with place and fix.
        on_traffic: called with a host and 0 for each request, and with the size of each piece that arrives. Several
            threads may call it.
    """

    _runner_class = SyncRunner

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @cached_property
    def lan(self) -> Lan:
        """The local network: its skills and scenes, and changes there. Nothing is asked yet."""
        from skillwire.client.lan import Lan  # noqa: PLC0415  # installing does without

        return Lan(self._session, self._runner)

    def close(self) -> None:
        """Close the connections. The client may be used again, and then opens new ones."""
        try:
            if self._session.is_on_lan:
                self.lan.close()
        finally:
            self._runner.close()

    def index(self, origin: str, *, timeout: float | None = None) -> list[RemoteSkill]:
        """Return the skills of an origin, or of the index or folder that ``origin`` leads to.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``, ``SKILL_NOT_FOUND``. TrustError: ``DOWNGRADE``.
            FetchError: the network or the server failed. DecodeError, ValidationError: the index is malformed.
        """
        found = self._runner.run(self._session.resolve(origin), timeout)
        return [RemoteSkill(skill, self._session, self._runner) for skill in found]

    def show(self, reference: str, *, both: bool = False, timeout: float | None = None) -> RemoteSkill:
        """Return the one skill that ``reference`` names: ``example.com/name``, a URL, ``./folder`` or a bare name.

        With ``both``, Skill Sharing is asked even where Agent Skills Discovery lists the skill, and fills ``shared``.
        The requests of this and those for its descriptor end within ``timeout`` seconds together.

        Raises:
            UsageError: ``REFERENCE`` for several skills, ``NO_SOURCES`` for a bare name without sources.
            NotFoundError: ``SKILL_NOT_FOUND`` with similar names. Otherwise as :meth:`index`.
        """
        limit = TimeLimit(timeout)
        ref = self._runner.run(self._session.resolve_one(reference, both=both), timeout)
        return RemoteSkill(ref, self._session, self._runner, limit.left(), reference)

    def which(self, reference: str, *, explain: bool = False, timeout: float | None = None) -> Resolution:
        """Return what ``reference`` names and why: every index asked, trust, what is installed; errors are part of it.

        With ``explain`` both protocols of the origin are asked.
        """
        return self._runner.run(self._session.which(reference, explain=explain), timeout)

    def find(
        self,
        query: str = "",
        origins: Sequence[str] | str = (),
        *,
        capability_type: str | None = None,
        timeout: float | None = None,
    ) -> list[tuple[RemoteSkill, float]]:
        """Search ``origins``, or the configured sources; return skills and scores, best first.

        An empty query returns every skill with the score 0. An origin that cannot be read is reported; when none can
        be read, the first error is raised. ``capability_type`` (``plugin``, ``api``, ``knowledge``, ``task``) selects
        skills that Skill Sharing lists as such.

        Raises:
            UsageError: ``NO_SOURCES``.
        """
        hits = self._runner.run(self._session.search(query, origins, capability_type), timeout)
        return [(RemoteSkill(skill, self._session, self._runner), score) for skill, score in hits]

    def sharing_document(self, url: str) -> bytes:
        """Return the bytes of a document of Skill Sharing as published, unread: for ``validate``."""
        return self._runner.run(self._session.sharing_document(url))

    def plan(
        self,
        *references: str,
        agents: Sequence[str] = (),
        copy: bool | None = None,
        choose: Callable[[Sequence[SkillRef]], Sequence[SkillRef]] | None = None,
        timeout: float | None = None,
    ) -> InstallPlan:
        """Return what :meth:`add` would do, and change nothing.

        Args:
            references: as a user would type them; without one, the setting ``skills``.
            agents: keys of :data:`skillwire.resolver.agents.AGENTS`, or ``*``; by default those of the settings,
                else the universal folder and the agents in use.
            copy: copies instead of links in the folders of several agents; by default as the settings say.
            choose: returns those of the skills of a reference that are wanted; by default all.
            timeout: seconds for all requests together.

        Raises:
            UsageError: ``USAGE`` for an unknown agent, or two skills of one name.
            TrustError: ``ORIGIN_REFUSED``, ``DOWNGRADE``. Otherwise as :meth:`index`.
        """
        return self._runner.run(self._session.plan(references, agents, copy=copy, choose=choose), timeout)

    def plan_locked(self, *names: str) -> InstallPlan:
        """Plan to install exactly what ``skills.lock`` says: these skills, or all. No index is asked.

        :meth:`apply` asks for the states of their versions, where they can be reached.

        Raises:
            NotFoundError: ``LOCK_MISSING``; ``NOT_INSTALLED`` for a name that the lock does not have.
        """
        return self._runner.run(self._session.plan_locked(names))

    def plan_update(self, comparisons: Sequence[UpdateComparison]) -> InstallPlan:
        """Plan to install the changed skills of :meth:`compare`, in their present places."""
        return self._runner.run(self._session.plan_update(comparisons))

    def inspect(
        self, plan: InstallPlan, *, consent: bool = False, on_done: Callable[[], object] = lambda: None
    ) -> InstallPlan:
        """Fetch the skills of a plan, and return it with a review of each; install nothing.

        Each of its ``skills`` has the review, or why it failed, as ``inspected``. What is doubtful in text and code is
        part of it. :meth:`apply` installs the inspected bytes. Without ``consent``, the failures of unknown origins are
        left to it.
        """
        return self._runner.run(self._session.inspect(plan, consent=consent, on_done=on_done))

    def hold_back(
        self, plan: InstallPlan, accept: Collection[str] = (), declined: Collection[str] = ()
    ) -> tuple[InstallPlan, dict[str, SkillwireError]]:
        """Return an inspected plan without updates that ask for more than the installed versions, and their errors.

        ``accept`` has the names of skills whose updates are taken all the same, and ``NAME@sha256:...`` for exact
        bytes, which alone accepts other bytes under the installed version, except from a folder or Git branch;
        ``declined`` names what is not taken.

        Raises:
            UsageError: ``USAGE`` for another form of ``accept``.
        """
        return self._runner.run(self._session.withhold_updates(plan, accept, declined))

    def diff(self, reference: str, version: str = "", *, timeout: float | None = None) -> SkillReview:
        """Return what changes from an installed skill, by its name, to its origin's present version or ``version``.

        Of any other reference, what changes from the version that it means to ``version``, or from the installed skill
        of its name to it. ``changes()`` of the result has the lines.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, ``VERSION_NOT_FOUND``. UsageError: ``USAGE`` for a single version.
                Otherwise as :meth:`apply`.
        """
        return self._runner.run(self._session.diff(reference, version), timeout)

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
            TrustError: ``ORIGIN_UNKNOWN`` without consent; ``DIGEST_MISMATCH``, ``LOCK_MISMATCH``, and the flaws of an
                archive.
            ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``. StorageError: the disk failed.
        """
        return self._runner.run(self._session.apply(plan, consent=consent, overwrite=overwrite, on_done=on_done))

    def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
        timeout: float | None = None,
    ) -> InstallReport:
        """Install skills: verified, all or nothing, recorded in ``skills.lock``. See :meth:`plan`, :meth:`apply`."""
        flow = self._session.add(references, agents, consent=consent, overwrite=overwrite, copy=copy)
        return self._runner.run(flow, timeout)

    def installed(self) -> list[LockedSkill]:
        """Return the skills of ``skills.lock``, by name."""
        return self._runner.run(self._session.installed())

    def verify(self, *names: str) -> Verification:
        """Compare the installed files of these skills, or of all, with ``skills.lock``, byte for byte."""
        return self._runner.run(verify(self._session.folder, names))

    def remove(self, *names: str, overwrite: bool = False) -> list[LockedSkill]:
        """Remove skills from disk and lock, even if their files were changed; return what they were.

        Raises:
            NotFoundError: ``NOT_INSTALLED``; nothing is removed then. ConflictError: ``DEPENDENCY_NEEDED``, another
                installed skill requires one of them; ``overwrite`` removes it all the same.
        """
        return self._runner.run(remove(self._session.folder, names, overwrite=overwrite))

    def compare(self, *names: str, to: str = "") -> list[UpdateComparison]:
        """Compare installed skills, these or all, with their origins, or with a version or range ``to``.

        An origin that cannot be read gives its skills the state ``unreachable``, and raises nothing. An update locks
        ``to`` also where the installed version is in it, and is ``current``.
        """
        return self._runner.run(self._session.compare(names, to))

    def outdated(self, *names: str, timeout: float | None = None) -> list[UpdateComparison]:
        """Return the comparisons of :meth:`compare` that are not ``current``."""
        return self._runner.run(self._session.outdated(names), timeout)

    def update(
        self,
        *names: str,
        accept: Collection[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        timeout: float | None = None,
    ) -> InstallReport:
        """Update installed skills, these or all; see :meth:`compare`, :meth:`hold_back` and :meth:`apply`.

        An update that asks for more and is not in ``accept`` is among the ``failed`` ones: ``UPDATE_ASKS_MORE``, or
        ``VERSION_REUSED``. A skill that is gone or cannot be reached stays as it is; :meth:`outdated` names it.
        """
        flow = self._session.update(names, accept, consent=consent, overwrite=overwrite)
        return self._runner.run(flow, timeout)

    def trusted_origins(self) -> dict[str, OriginRecord]:
        """Return the origins that the user agreed to install from, with the record of each."""
        return self._runner.run(self._session.trusted_origins())

    def revoke_trust(self, origin: str, *, dry_run: bool = False) -> list[str]:
        """Withdraw the consent to ``origin``, as a user would type it; return the origins that this covers.

        ``dry_run`` changes nothing. Installed skills stay, and so does the record that an origin gives digests.

        Raises:
            NotFoundError: ``ORIGIN_NOT_ACCEPTED``.
        """
        return self._runner.run(self._session.revoke_trust(origin, dry_run=dry_run))

    @overload
    def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: None = None,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution: ...

    @overload
    def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: type[T],
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> T: ...

    def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: type[T] | None = None,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution | T:
        """Call the skill that ``reference`` names; return its execution, which may have failed.

        The descriptor is checked first, then the inputs; nothing is sent when either is wrong. After a network failure
        the call is sent again under one key, so that it is executed once.

        Args:
            reference: as a user would type it; or ``lan:CAPABILITY`` for any provider on the local network, see
                :meth:`Lan.call`.
            inputs: by name; defaults are those of the descriptor.
            wait: until the execution has ended; otherwise only until it was accepted.
            timeout: seconds that it may take; the provider gets it too. The execution may still run afterwards:
                ``is_final`` says so, and :meth:`result` goes on waiting. It includes the time for index and descriptor.
            priority: ``low``, ``normal`` or ``high``.
            trace_id: identifies it across systems.
            idempotency_key: executes it once, however often this is called; by default a new one each time.
            caller_id: the caller's name; by default a different one for each origin.
            caller_type: what the caller is: ``user``, ``service``, ``ifay``.
            consent: agree to use the credential of the endpoint's origin, where that is not the reference's.
            on_change: called with the execution when it was accepted, and at each new status.
            into: a type, such as a dataclass, a ``TypedDict``, a ``msgspec.Struct`` or a model of Pydantic: the output
                is returned as a value of it in place of the execution, and raised as an error if the call failed.
            use_unverified: with ``lan:``, use a skill whose key is not certified; by default as the settings say.

        Raises:
            ValidationError: ``VALIDATION_ERROR`` for inputs, with each fault in ``details``; ``VERSION_INCOMPATIBLE``,
                ``DESCRIPTOR``; ``OUTPUT_DIFFERS`` where ``into`` is another type. ExecutionError, PendingError: with
                ``into``, it has not completed. TrustError: ``ENDPOINT_FOREIGN`` without consent.
            FetchError: ``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``CIRCUIT_OPEN``, and errors of network and provider.
                Otherwise as :meth:`show`.
        """
        if into is not None:
            from skillwire.model.typed_output import check_type  # noqa: PLC0415  # installing does without

            check_type(into)
        flow = self._session.call_reference(reference, inputs or {}, options, use_unverified=use_unverified)
        execution = self._runner.run(flow)
        return execution if into is None else execution.output_as(into)

    def watch(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> CallWatch:
        """Call a skill, and return an iterator of what happens to the call, until its execution has ended.

        The iterator's ``execution`` is the latest state. ``close``, or the end of a ``with`` block, stops waiting and
        sends nothing; ``close`` returns whether the execution goes on at its provider, as ``goes_on`` does. Events also
        end after ``timeout`` seconds. Arguments and errors are those of :meth:`call`; each event may raise them.
        """
        return CallWatch(self._runner, self._session, reference, inputs or {}, options, use_unverified=use_unverified)

    def execution(self, execution: str) -> RemoteExecution:
        """Return an execution's status and output, by its id, when it was called here, or its status URL.

        An id may be cut short to a beginning that no other call here has.

        Raises:
            NotFoundError: ``EXECUTION_UNKNOWN`` for an unknown id; ``SKILL_NOT_FOUND`` when the provider does not know
                it. UsageError: ``REFERENCE`` for an id of several calls.
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
        """Wait until an execution has ended, or for ``timeout`` seconds; return it. See :meth:`execution`."""
        return self._runner.run(self._session.calls.wait(execution, timeout, on_change))

    def cancel(self, execution: str) -> RemoteExecution:
        """Cancel an execution; return it as it ended, which ``is_cancelled`` tells. See :meth:`execution`."""
        return self._runner.run(self._session.calls.cancel(execution))

    def registry(self, url: str = "") -> RemoteRegistry:
        """Return the registry at ``url``, by default that of the settings, to publish to and to look after, unasked.

        Raises:
            UsageError: ``REGISTRY_MISSING`` without either. ValidationError: ``URL``.
        """
        from skillwire.client.registry import RemoteRegistry  # noqa: PLC0415  # installing does without

        return RemoteRegistry(self._session.registry_url(url), self._session, self._runner)

    def rpc(self, endpoint: str) -> RpcSkills:
        """Return the methods of an endpoint of the Skills Protocol, such as ``https://example.com/rpc``, unasked.

        Raises:
            UsageError: ``REFERENCE`` for a text that is no URL.
        """
        from skillwire.client.rpc import RpcSkills  # noqa: PLC0415  # installing does without

        return RpcSkills(endpoint_url(endpoint), self._session, self._runner)
