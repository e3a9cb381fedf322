"""Packages of a registry, as values: namespaces and roles, versions and ranges of them, changes and the audit log.

A package is a skill under ``namespace/name`` with all its versions. A version never changes and its number is never
free again; its state and the package's say whether it may still be used, in the shape of PEP 792. Times are seconds
since the epoch.

A skill requires other skills and capabilities. A requirement is ``NAME``, of the same place; ``NAMESPACE/NAME``, of the
same registry; ``example.com/NAME``; or ``capability:ID``; each with ``@RANGE``. A range is a list of comparisons that
all hold: ``1.2.0`` exactly, ``>=0.7.0 <2``, ``~1.2`` (the same minor version), ``^1.2`` (the same major version; of a
version 0, the same minor). A missing part means every value of it. A prerelease is in a range only if a comparison
names a prerelease of the same version. Spec: SDP §7.2; specs §3; docs/reference/skill-folder.md [ours].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from skillwire.errors import UsageError, ValidationError
from skillwire.model.access import EVERY_SKILL, Access, narrowest_access
from skillwire.model.digest import Digest
from skillwire.model.skill import Skill, is_skill_name, is_version

_ACCOUNT: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)


def is_namespace(text: object) -> bool:
    """Whether ``text`` is a valid name of a namespace; the form is that of a skill's name."""
    return is_skill_name(text)


def is_account(text: object) -> bool:
    """Whether ``text`` is a valid name of an account."""
    return isinstance(text, str) and _ACCOUNT.fullmatch(text) is not None


class Account(NamedTuple):
    """A person or a robot that uses the registry. An operator may do everything, in every namespace.

    ``issuer`` and ``subject`` are those of OpenID Connect, where the account signs in with it.
    """

    name: str
    created: float
    is_operator: bool = False
    issuer: str = ""
    subject: str = ""


class AccountUpdate(NamedTuple):
    """A change of an account; None leaves a part as it is.

    ``person`` is the issuer and the subject of the one who signs in, both empty to unlink the account.
    ``revoked`` is the name of the tokens to revoke; an empty name revokes all.
    """

    person: tuple[str, str] | None = None
    is_operator: bool | None = None
    revoked: str | None = None


class Role(StrEnum):
    """What an account may do in a namespace; each role includes those after it."""

    OWNER = "owner"  # members, proof, rename
    MAINTAINER = "maintainer"  # access, deprecate, archive, delete
    PUBLISHER = "publisher"  # publish, yank
    READER = "reader"  # read what is private

    def includes(self, other: Role) -> bool:
        """Whether this role may do what ``other`` may."""
        return _ROLES.index(self) <= _ROLES.index(other)


_ROLES: Final = tuple(Role)
ProofKind = Literal["", "dns", "file", "operator"]


class Proof(NamedTuple):
    """How the owner of a namespace was proven: by a domain, or by an operator's word; empty while unproven."""

    kind: ProofKind = ""
    domain: str = ""
    at: float = 0.0


class Namespace(NamedTuple):
    """A namespace; a renamed one redirects to ``renamed_to``, and its name is never given out again."""

    name: str
    created: float
    proof: Proof = Proof()
    renamed_to: str = ""


class Status(StrEnum):
    """The state of a package or of a version. Spec: PEP 792 for packages."""

    ACTIVE = "active"
    ARCHIVED = "archived"  # a package: complete, no new versions
    DEPRECATED = "deprecated"  # usable, with a successor
    YANKED = "yanked"  # a version: not resolved any more, still there by digest and by lock
    QUARANTINED = "quarantined"  # a moderator refuses its download
    DELETED = "deleted"  # a package: gone for everyone; its name stays taken


#: States in which a package takes no new versions.
CLOSED: Final = frozenset({Status.ARCHIVED, Status.DELETED, Status.QUARANTINED})


class State(NamedTuple):
    """A status with its reason, and the package to use instead."""

    status: Status = Status.ACTIVE
    reason: str = ""
    successor: str = ""


def state_in_index(package: State, version: State) -> tuple[str, str, str] | None:
    """Return the state of a listed version, as :class:`skillwire.model.skill.Skill` has it."""
    of_all = {Status.ARCHIVED, Status.DEPRECATED}
    state = package if version.status is Status.ACTIVE and package.status in of_all else version
    return None if state.status is Status.ACTIVE else (state.status.value, state.reason, state.successor)


#: Which packages are listed: those under their present names, those of them with a latest version, or renamed ones.
#: Deleted ones never are.
Among = Literal["present", "latest", "renamed"]


class PackageName(NamedTuple):
    """``namespace/name``."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Package(NamedTuple):
    """A package; ``latest`` is the version that is resolved without a range, empty where none may be."""

    name: PackageName
    created: float
    access: Access = Access.PUBLIC
    state: State = State()
    latest: str = ""
    renamed_to: PackageName | None = None


class PackageVersion(NamedTuple):
    """One version of a package.

    ``skill`` holds the digest of the stored artifact; ``uploaded`` is the digest of what the publisher sent.
    """

    skill: Skill  # its publisher is the namespace
    published: float
    publisher: str  # an account
    uploaded: Digest
    state: State = State()

    @property
    def package(self) -> PackageName:
        """The package that it is a version of."""
        return PackageName(self.skill.publisher, self.skill.name)

    @property
    def version(self) -> str:
        """Of Semantic Versioning."""
        return self.skill.version

    def follow(self, package: Package | None) -> Package:
        """Return the package once it has this version as well; one without others is new."""
        if package is None:
            return Package(self.package, self.published, self.skill.access, latest=self.version)
        versions = [(version, Status.ACTIVE) for version in (package.latest, self.version) if version]
        access = narrowest_access(package.access, self.skill.access)
        return package._replace(access=access, latest=latest_version(versions))


class Rights(NamedTuple):
    """What decides what an account may read: it, namespace → role, and the packages shared with it."""

    account: Account | None
    roles: Mapping[str, Role] = {}
    readable: Sequence[PackageName] = ()


class Right(NamedTuple):
    """What a change needs: this token, if the store has it, and either an operator or a ``role`` in the namespace."""

    token_id: str = ""
    role: Role | None = None
    is_operator: bool = False


class Change(NamedTuple):
    """A change as recorded in the audit log: account, action, target, details, source address and request.

    The ``right`` is not recorded: the transaction that stores the change checks it again, since a role or a token can
    be taken away after the request was authorized.
    """

    at: float
    account: str
    action: str
    target: str
    details: Mapping[str, Any] = {}
    address: str = ""
    request_id: str = ""
    right: Right | None = None


class AuditEntry(NamedTuple):
    """An entry of the audit log; ``digest`` chains it to the one before, see :mod:`skillwire.registry.audit`."""

    number: int
    change: Change
    digest: str


class ChangedPackage(NamedTuple):
    """A package that changed, and the packed skill of the version that is now served; None where none is.

    ``owns_name`` is whether its name without the namespace is its own, for good.
    """

    number: int  # rises with the first publication of packages
    package: Package
    served: bytes | None
    state: State = State()  # of that version
    owns_name: bool = False


class ChangeCursor(NamedTuple):
    """How far changes were read: to this ``change``, when this ``entry`` of the audit log was the last one.

    The digest of an entry covers all entries before it, so a database that has another one there was restored.
    """

    change: int = 0
    entry: int = 0
    digest: str = ""


class ChangedPackages(NamedTuple):
    """What changed since a cursor, and the next cursor.

    ``is_anew`` is whether the cursor is of another history, as after a restore. Then the packages are the first ones
    of all, and those read before are gone.
    """

    cursor: ChangeCursor
    packages: tuple[ChangedPackage, ...]
    is_anew: bool = False


class Upload(NamedTuple):
    """An upload: ``offset`` of its ``size`` bytes are here."""

    number: str
    size: int
    digest: Digest
    offset: int
    expires: float


#: The number of an upload: its size, and the SHA-256 that it is to have.
UPLOAD: Final = re.compile(r"([1-9][0-9]{0,11})-([0-9a-f]{64})", re.ASCII)


def upload_number(size: int, digest: Digest) -> str:
    """Return the number of the upload of these bytes."""
    return f"{size}-{digest.hex}"


class AnnouncedFile(NamedTuple):
    """A file that an account sends by itself, for a ticket, before ``ends``; it is published with others."""

    ticket: str
    account: str
    path: str
    size: int
    digest: Digest
    ends: float


class StoredVersion(NamedTuple):
    """How storing a version ended, its package then if it is there now, and the number of the change.

    ``reason`` is why its bytes are in quarantine, or the other version of its precedence; ``narrows`` whether it has
    narrowed the access of its package; ``yanked`` is number → reason of the package's other versions with its
    bytes that are yanked.
    """

    how: Literal["created", "repeated", "conflict", "precedence", "closed", "full", "quarantined"]
    package: Package | None = None
    change: int = 0
    reason: str = ""
    narrows: bool = False
    yanked: Mapping[str, str] = {}


def version_order(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions by precedence. Spec: SemVer 2.0.0 §11."""
    core, _, before = version.partition("+")[0].partition("-")
    numbers = tuple(int(part) for part in core.split("."))
    parts = (
        tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split(".")) if before else ()
    )
    return (numbers, not before, parts)


def latest_version(versions: Iterable[tuple[str, Status]]) -> str:
    """Return the highest active version, a release before any prerelease; empty where there is none."""
    usable = [version for version, status in versions if status in {Status.ACTIVE, Status.DEPRECATED}]
    return max(usable, key=lambda one: ("-" not in one.partition("+")[0], version_order(one), one), default="")


def read_package_name(text: str) -> PackageName | None:
    """Return the package that ``namespace/name`` names; None for another form."""
    namespace, _, name = text.partition("/")
    return PackageName(namespace, name) if is_namespace(namespace) and is_skill_name(name) else None


def is_grant(text: str) -> bool:
    """Whether a grant is well-formed: a skill's name, ``namespace/name`` of a package, or ``*`` for all."""
    return text == EVERY_SKILL or is_skill_name(text) or read_package_name(text) is not None


def move_skill(skill: Skill, namespace: str) -> Skill:
    """Return ``skill`` as one of another namespace, with the identifiers that follow from it."""
    old, ids = skill.publisher, skill.identifiers
    if ids is not None:
        dotted, new = (name.lower().replace("-", ".") for name in (old, namespace))
        is_own = ids.namespace == dotted
        ids = ids._replace(
            skill_sharing=f"{namespace}/{ids.skill_sharing.removeprefix(f'{old}/')}",
            skills_rpc=f"{new}.{ids.skills_rpc.removeprefix(f'{dotted}.')}" if is_own else ids.skills_rpc,
            namespace=new if is_own else ids.namespace,
        )
    return skill._replace(publisher=namespace, identifiers=ids)


def with_version(skill: Skill, version: str) -> Skill:
    """Return ``skill`` with ``version``, if given. Raises UsageError (``PACKAGE_VERSION``)."""
    if version and not is_version(version):
        fix = "Write it as Semantic Versioning does, such as 1.2.0."
        raise UsageError("PACKAGE_VERSION", f"{ascii(version)[:80]} is no version", fix=fix)
    if not version or version == skill.version:
        return skill
    return skill._replace(version=version, sharing=skill.sharing and skill.sharing._replace(version=version))


def check_identifiers(skill: Skill) -> None:
    """Check that a skill uses no identifiers of other namespaces. Raises UsageError (``IDENTIFIER_FOREIGN``)."""
    ids, namespace = skill.identifiers, skill.publisher
    dotted = namespace.replace("-", ".")
    found = [(ids.skill_sharing, f"{namespace}/"), (ids.skills_rpc, f"{dotted}.")] if ids else []
    if ids and ids.skill_discovery != skill.name:
        found.append((ids.skill_discovery, f"{namespace}."))
    for identifier, begin in found:
        if not identifier.startswith(begin):
            fix = f"Remove the identifier from skill.toml and descriptor.json, or begin it with {begin}"
            raise UsageError("IDENTIFIER_FOREIGN", f"{identifier} is not of the namespace {namespace}", fix=fix)


class VersionReference(NamedTuple):
    """``namespace/name`` with a version, empty for none."""

    package: PackageName
    version: str

    @property
    def path(self) -> str:
        """Its path in the API."""
        version = f"/{quote(self.version, safe='')}" if self.version else ""
        return f"/packages/{self.package}{version}"


def read_reference(text: str, *, needs_version: bool = False) -> VersionReference:
    """Return the package that ``namespace/name@1.2.0`` names. Raises UsageError (``REFERENCE``)."""
    name, _, version = text.partition("@")
    package = read_package_name(name)
    if package is None or (needs_version and not version):
        form = "NAMESPACE/NAME@VERSION" if needs_version else "NAMESPACE/NAME, or with @VERSION"
        what = "version of a package" if package else "package here"
        raise UsageError("REFERENCE", f"{ascii(text)[:80]} names no {what}", fix=f"Write {form}.")
    return VersionReference(package, version)


_REQUIREMENT_LENGTH: Final = 200
_RANGE_COMPARISONS: Final = 8
_COMPARISON: Final = re.compile(r"(\^|~|>=|<=|>|<|=|)\s*(\*|[0-9][0-9A-Za-z.+-]*)(?:\s+|\Z)", re.ASCII)
_PARTIAL: Final = re.compile(r"(0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*))?(?:\.(0|[1-9][0-9]*))?", re.ASCII)
_CAPABILITY: Final = re.compile(r"capability:[A-Za-z0-9._-]{1,128}", re.ASCII)
_PLACE: Final = re.compile(
    r"(?=[^/]*[.:]|localhost/)[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?(?:/[A-Za-z0-9@._~-]+)+", re.ASCII
)
_VERSION: Final = re.compile(r"(?<!/)@")  # one behind a slash begins a namespace


class VersionRange(NamedTuple):
    """The versions from ``first`` on and before ``end``, both keys of :func:`version_order`; () is no bound."""

    text: str
    first: tuple[Any, ...] = ()
    end: tuple[Any, ...] = ()
    prereleases: frozenset[Any] = frozenset()  # the versions whose prereleases are in it

    def __contains__(self, version: object) -> bool:
        """Whether a version is in the range; every one, and none at all, is in ``*``."""
        if self.text == "*":
            return True
        if not isinstance(version, str) or not is_version(version):
            return False
        numbers, is_release, _ = order = version_order(version)
        if not (is_release or numbers in self.prereleases):
            return False
        return self.first <= (*order, 0) and (not self.end or (*order, 0) < self.end)


ANY_VERSION: Final = VersionRange("*")


def parse_range(text: str) -> VersionRange:
    """Return the range that ``text`` means. Raises ValidationError (``VERSION_RANGE``)."""
    comparisons, read = [], 0
    stripped = text.strip()
    while len(text) <= _REQUIREMENT_LENGTH and (match := _COMPARISON.match(stripped, read)):
        comparisons.append((match[1], match[2]))
        read = match.end()
    if not comparisons or read < len(stripped) or len(comparisons) > _RANGE_COMPARISONS:
        raise _refused_range(text)
    if comparisons == [("", "*")]:
        return ANY_VERSION
    prereleases = [version_order(version)[0] for _, version in comparisons if is_version(version) and "-" in version]
    bounds = [_range_bounds(operator, version, text) for operator, version in comparisons]
    ends = [end for _, end in bounds if end]
    return VersionRange(stripped, max(first for first, _ in bounds), min(ends, default=()), frozenset(prereleases))


def _range_bounds(operator: str, version: str, text: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the first version of one comparison and the end behind its last one."""
    match = _PARTIAL.match(version)
    if match is None or not (is_version(version) or match.end() == len(version)):
        raise _refused_range(text)
    parts = tuple(int(part) for part in match.groups() if part is not None)
    last = len(parts) - 1
    lasts = {"~": min(last, 1), "^": next((place for place, part in enumerate(parts) if part), last)}
    first = (*version_order(version), 0) if is_version(version) else _range_release(parts)
    behind = (*first[:-1], 1)
    if operator in lasts or not is_version(version):  # the first release that begins with other parts
        place = lasts.get(operator, last)
        behind = _range_release((*parts[:place], parts[place] + 1))
    return {">": (behind, ()), ">=": (first, ()), "<": ((), first), "<=": ((), behind)}.get(operator, (first, behind))


def _range_release(parts: tuple[int, ...]) -> tuple[Any, ...]:
    return ((*parts, 0, 0)[:3], True, (), 0)


def _refused_range(text: str) -> ValidationError:
    fix = "Write comparisons such as ^1.2, ~1.2.3, >=1.0 <2, or one version."
    return ValidationError("VERSION_RANGE", f"{ascii(text)[:120]} is no range of versions", fix=fix)


class Requirement(NamedTuple):
    """One requirement: a skill at ``target``, or a skill that has ``capability``."""

    text: str
    target: str
    capability: str
    versions: VersionRange = ANY_VERSION


def required_packages(requires: Iterable[str], namespace: str) -> set[PackageName]:
    """Return the packages of the same registry that a skill in ``namespace`` requires."""
    targets = [parse_requirement(text).target for text in requires]
    found = [PackageName(namespace, one) if is_skill_name(one) else read_package_name(one) for one in targets]
    return {one for one in found if one is not None}


def split_version(text: str) -> tuple[str, str]:
    """Return a reference and what stands behind its ``@``; the ``@`` of ``example.com/@namespace/name`` is no such."""
    found = _VERSION.split(text, maxsplit=1)
    return (found[0], found[1]) if len(found) > 1 else (text, "")


def parse_requirement(text: str) -> Requirement:
    """Return the requirement that ``text`` states. Raises ValidationError (``FIELD``, ``VERSION_RANGE``)."""
    target, version = split_version(text[:_REQUIREMENT_LENGTH])
    is_capability = _CAPABILITY.fullmatch(target) is not None
    is_target = is_skill_name(target) or read_package_name(target) is not None or _PLACE.fullmatch(target) is not None
    if len(text) > _REQUIREMENT_LENGTH or not (is_capability or is_target) or text.endswith("@"):
        fix = 'Write "name", "namespace/name", "example.com/name" or "capability:id", each with @RANGE.'
        raise ValidationError("FIELD", f"{ascii(text)[:120]} names no skill and no capability", fix=fix)
    versions = parse_range(version) if version else ANY_VERSION
    capability = target.removeprefix("capability:") if is_capability else ""
    return Requirement(text, "" if is_capability else target, capability, versions)
