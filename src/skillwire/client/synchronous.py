"""The synchronous client, which the command line uses too: the standard library only.

Written by ``tools/generate_client.py`` from ``asynchronous.py``: change that file, then run the tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from skillwire.client.remote import IndexedSkill, read_body, read_file
from skillwire.client.steps import BlockingSteps
from skillwire.client.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from skillwire.client.steps import BlockingDriver
    from skillwire.model.finding import Finding
    from skillwire.model.install import LockedSkill
    from skillwire.model.origin_record import OriginRecord
    from skillwire.protocols.skill_sharing.messages import SkillDescriptor
    from skillwire.resolver.apply import Report
    from skillwire.resolver.compare import Comparison
    from skillwire.resolver.install import Plan
    from skillwire.resolver.installed import Verification
    from skillwire.resolver.locate import Files, LocatedSkill
    from skillwire.resolver.policy import InstallPolicy
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
        report: told of each finding: what was skipped and is doubtful, with place and fix.
        on_traffic: told a host and 0 when a request is made, a host and the bytes of each piece that comes. It may
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
        self._workplace = Workplace(
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
        self._steps = BlockingSteps(self._workplace)

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
        return self._workplace.root

    @property
    def driver(self) -> BlockingDriver | None:
        """What holds the conversations; None until the first one. Tests set a simulated publisher."""
        return self._steps.driver

    @driver.setter
    def driver(self, driver: BlockingDriver | None) -> None:
        self._steps.driver = driver

    def set_token(self, origin: str, token: str) -> None:
        """Send ``token`` with every request to ``origin`` from now on, and to no other.

        Raises:
            ValidationError: ``origin`` is not a URL such as ``https://example.com``.
            UsageError: ``token`` holds what no header may hold.
        """
        self._workplace.leave.set_token(origin, token)

    def close(self) -> None:
        """Close the connections. The client may be used again, and then opens new ones."""
        self._steps.close()

    def index(self, origin: str) -> list[RemoteSkill]:
        """Return the skills of an origin, or of whatever index or folder ``origin`` leads to.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``, ``SKILL_NOT_FOUND``. TrustError: ``DOWNGRADE``.
            FetchError: the network or the server failed. DecodeError, ValidationError: the index is malformed.
        """
        return self._remote(self._steps.run(self._workplace.locate(origin)))

    def skill(self, reference: str) -> RemoteSkill:
        """Return the one skill that ``reference`` means: ``example.com/name``, a URL, ``./folder`` or a bare name.

        Raises:
            UsageError: ``REFERENCE`` when it means several, ``NO_SOURCES`` for a bare name without sources.
            NotFoundError: ``SKILL_NOT_FOUND`` with names that look alike; as :meth:`index` otherwise.
        """
        return self._remote([self._steps.run(self._workplace.locate_one(reference))])[0]

    def which(self, reference: str, *, explain: bool = False) -> Resolution:
        """Find what ``reference`` means and how: every index that was asked, trust, what is installed, why it won.

        What goes wrong on the way is part of the answer. With ``explain`` both protocols of the origin are asked.

        Raises:
            UsageError: ``REFERENCE``.
        """
        return self._steps.run(self._workplace.which(reference, explain=explain))

    def find(
        self, query: str = "", origins: Sequence[str] = (), *, capability_type: str | None = None
    ) -> list[tuple[RemoteSkill, float]]:
        """Search the indexes of ``origins``, or of the configured sources; return skills and scores, best first.

        All skills, with the score 0, for an empty query. An origin that cannot be read is reported; when none can
        be, the first error is raised. With a ``capability_type`` (``plugin``, ``api``, ``knowledge``, ``task``) only
        what Skill Sharing lists as such.

        Raises:
            UsageError: ``NO_SOURCES``.
        """
        hits = self._steps.run(self._workplace.search(query, origins, capability_type))
        skills = self._remote([skill for skill, _ in hits])
        return [(skill, score) for skill, (_, score) in zip(skills, hits, strict=True)]

    def sharing_document(self, url: str) -> bytes:
        """Return the bytes of a document of Skill Sharing as it is published, unread: for ``validate``.

        Raises:
            NotFoundError: ``INDEX_NOT_FOUND``. FetchError: the network or the server failed.
        """
        return self._steps.run(self._workplace.sharing_document(url))

    def plan(self, *references: str, agents: Sequence[str] = (), copy: bool | None = None) -> Plan:
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
        return self._steps.run(self._workplace.plan(references, agents, copy=copy))

    def plan_frozen(self, *names: str) -> Plan:
        """Plan to install exactly what ``skills.lock`` says: these skills, or all. No index is asked.

        Raises:
            NotFoundError: ``LOCK_MISSING``; ``NOT_INSTALLED`` for a name that the lock does not have.
        """
        return self._steps.run(self._workplace.plan_frozen(names))

    def plan_update(self, comparisons: Sequence[Comparison]) -> Plan:
        """Plan to install what has changed, by the answer of :meth:`compare`, where it stands now."""
        return self._steps.run(self._workplace.plan_update(comparisons))

    def apply(
        self,
        plan: Plan,
        *,
        consent: bool = False,
        overwrite: bool = False,
        on_done: Callable[[], object] = lambda: None,
    ) -> Report:
        """Do what a plan says: everything, or nothing.

        Args:
            plan: from :meth:`plan`, :meth:`plan_frozen` or :meth:`plan_update`.
            consent: agree to ``plan.unknown_origins``, now and from now on.
            overwrite: replace ``plan.conflicts``.
            on_done: called after each skill that was fetched.

        Raises:
            TrustError: ``ORIGIN_UNKNOWN`` when consent is needed and not given; ``DIGEST_MISMATCH``,
            ``LOCK_MISMATCH``, and whatever is wrong with an archive.
            ConflictError: ``SKILL_CONFLICT`` unless ``overwrite``. StorageError: the disk failed.
        """
        flow = self._workplace.apply(plan, consent=consent, overwrite=overwrite, on_done=on_done)
        return self._steps.run(flow)

    def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
    ) -> Report:
        """Install skills: verified, all or nothing, recorded in ``skills.lock``.

        Arguments and errors are those of :meth:`plan` and :meth:`apply`, one after the other.
        """
        plan = self.plan(*references, agents=agents, copy=copy)
        return self.apply(plan, consent=consent, overwrite=overwrite)

    def installed(self) -> list[LockedSkill]:
        """Return what ``skills.lock`` says is installed, by name."""
        return self._steps.run(self._workplace.installed())

    def verify(self, *names: str) -> Verification:
        """Compare what stands on disk, these skills or all, with ``skills.lock``, byte for byte.

        Raises:
            NotFoundError: ``NOT_INSTALLED``.
        """
        return self._steps.run(self._workplace.verify(names))

    def remove(self, *names: str) -> list[LockedSkill]:
        """Take skills away, whether or not their files were changed, and out of the lock; return what they were.

        Raises:
            NotFoundError: ``NOT_INSTALLED``; nothing is removed then.
        """
        return self._steps.run(self._workplace.remove(names))

    def compare(self, *names: str) -> list[Comparison]:
        """Compare installed skills, these or all, with what their origins have now. Each index is asked once.

        An origin that cannot be read is a state of its skills, ``unreachable``, and no error.

        Raises:
            NotFoundError: ``NOT_INSTALLED``.
        """
        return self._steps.run(self._workplace.compare(names))

    def outdated(self, *names: str) -> list[Comparison]:
        """Return those comparisons that are not ``current``; otherwise as :meth:`compare`."""
        return [row for row in self.compare(*names) if row.state != "current"]

    def update(self, *names: str, consent: bool = False, overwrite: bool = False) -> Report:
        """Bring installed skills, these or all, up to date with their origins.

        What is gone or cannot be reached stays as it is; :meth:`outdated` says which. Arguments and errors are those
        of :meth:`compare` and :meth:`apply`.
        """
        plan = self.plan_update(self.compare(*names))
        return self.apply(plan, consent=consent, overwrite=overwrite)

    def origins(self) -> dict[str, OriginRecord]:
        """Return the origins that someone agreed to install from, with what is remembered of each."""
        return self._steps.run(self._workplace.accepted_origins())

    def forget_origin(self, origin: str, *, dry_run: bool = False) -> list[str]:
        """Take back the consent to ``origin``, as a user would type it; return which origins that were.

        With ``dry_run`` nothing is changed. What is installed stays, and so does the memory that an origin gives
        digests.

        Raises:
            NotFoundError: ``ORIGIN_NOT_ACCEPTED``.
        """
        return self._steps.run(self._workplace.forget_origin(origin, dry_run=dry_run))

    def _remote(self, skills: Sequence[LocatedSkill]) -> list[RemoteSkill]:
        return [RemoteSkill(skill, self._workplace, self._steps) for skill in skills]


class RemoteSkill(IndexedSkill):
    """A skill at its origin: level 1 is at hand, ``body`` is level 2, ``open`` level 3.

    Spec: ASD Progressive Disclosure.
    """

    def __init__(self, located: LocatedSkill, workplace: Workplace, steps: BlockingSteps) -> None:
        super().__init__(located)
        self._workplace, self._steps = workplace, steps
        self._files: Files | None = None

    def descriptor(self) -> SkillDescriptor:
        """Return its Skill Descriptor: inputs, output, endpoint and how callers authenticate; checked in full.

        Raises:
            NotFoundError: none is published. ValidationError: ``VALIDATION_ERROR``, ``VERSION_INCOMPATIBLE``,
            ``DESCRIPTOR``, ``ID_DIFFERS``. FetchError, DecodeError: it cannot be had, is malformed.
        """
        return self._steps.run(self._workplace.descriptor(self._located))

    def files(self) -> Files:
        """Return all files with their bytes, sorted by path; fetched and verified once.

        Raises:
            FetchError, TrustError, DecodeError: it cannot be had, is not what was promised, is malformed.
        """
        if self._files is None:
            self._files = self._steps.run(self._workplace.files(self._located))
        return self._files

    def body(self) -> str:
        """Return the instructions: ``SKILL.md`` without its frontmatter. Raises what :meth:`files` does."""
        return read_body(self.name, self.files())

    def open(self, path: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            TrustError: a path that leads out. NotFoundError: ``FILE_NOT_FOUND``. What :meth:`files` raises.
        """
        return read_file(self.name, path, self.files())
