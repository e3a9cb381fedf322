"""The documents of the registry's API, and how values become them. Times are seconds since the epoch.

``skillwire registry`` reads answers as these types, and prints them with ``--json``; the texts are for its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from skillwire.errors import ValidationError
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import Namespace, Package, PackageVersion, Role, Status
from skillwire.registry.packages import PublishedVersion

T = TypeVar("T", bound=Struct)
A = TypeVar("A")


class RegistryInfo(Struct):
    """The registry itself; without an operator it ``needs_setup``."""

    site: str
    needs_setup: bool
    registry: Literal[True] = True


class Done(Struct):
    """A change without a document."""


class SetupRequest(Struct, forbid_unknown_fields=True):
    """The one-time code that the server printed, and the account to make the first operator."""

    code: str
    account: str


class CallerAccount(Struct):
    """The account of a caller, and what its token allows."""

    account: Annotated[str, "Account of the token"]
    operator: Annotated[bool, "Whether it is an operator"]
    scopes: Annotated[list[str], "Scopes of the token"]
    namespaces: Annotated[dict[str, Role], "Role in each namespace"]


class NamespaceRequest(Struct, forbid_unknown_fields=True):
    """A namespace to make."""

    name: str


class ProofRequest(Struct, forbid_unknown_fields=True):
    """A proof to check; without a domain for an operator's word."""

    kind: Literal["dns", "file", "operator"]
    domain: str = ""


class RenameRequest(Struct, forbid_unknown_fields=True):
    """The new name of a namespace."""

    to: str


class RoleRequest(Struct, forbid_unknown_fields=True):
    """A role to give."""

    role: Role


class ProofObject(Struct):
    """How a namespace is proven."""

    kind: Annotated[Literal["", "dns", "file", "operator"], "How it is proven; empty while it is not"]
    domain: Annotated[str, "Domain that proves it; empty for others"]
    at: Annotated[float, "Time of the proof, in seconds since the epoch"]


class NamespaceObject(Struct):
    """A namespace."""

    name: Annotated[str, "Name"]
    created: Annotated[float, "Time of creation, in seconds since the epoch"]
    proof: Annotated[ProofObject, "How its owner is proven"]


class NamespaceList(Struct):
    """A page of namespaces; the next one begins behind ``next``."""

    namespaces: list[NamespaceObject]
    next: str | None


class StateObject(Struct, omit_defaults=True):
    """A state, in the shape of PEP 792."""

    status: Annotated[Status, "Status"]
    reason: Annotated[str, "Why; absent without a reason"] = ""
    successor: Annotated[str, "Package to use instead; absent without one"] = ""


class FileObject(Struct):
    """A file of a skill."""

    path: Annotated[str, "Path in the skill"]
    size: Annotated[int, "Bytes"]
    digest: Annotated[str, "Digest of its content"]
    executable: Annotated[bool, "Whether its mode is 755, and not 644"]


class VersionObject(Struct):
    """A version."""

    version: Annotated[str, "Version"]
    published: Annotated[float, "Time of publication, in seconds since the epoch"]
    publisher: Annotated[str, "Account that published it"]
    digest: Annotated[str, "Digest of the artifact"]
    uploaded: Annotated[str, "Digest of what its publisher sent"]
    size: Annotated[int, "Bytes of the artifact"]
    media_type: Annotated[str, "Media type of the artifact"]
    description: Annotated[str, "What it does and when to use it"]
    license: Annotated[str | None, "License; null if its files name none"]
    requires: Annotated[list[str], "Requirements"]
    status: Annotated[StateObject, "State"]
    url: Annotated[str, "URL of the artifact"]
    files: Annotated[list[FileObject] | UnsetType, "Files, in the answer about one version"] = UNSET
    copies: Annotated[
        list[str] | UnsetType,
        "In the answer to a quarantine: other packages of these bytes, and versions of this one as PACKAGE@VERSION",
    ] = UNSET
    more_copies: Annotated[bool | UnsetType, "In that answer: whether there may be others that are not named"] = UNSET


class PackageSummary(Struct):
    """A package."""

    namespace: Annotated[str, "Namespace"]
    name: Annotated[str, "Name"]
    created: Annotated[float, "Time of creation, in seconds since the epoch"]
    access: Annotated[Access, "Visibility"]
    status: Annotated[StateObject, "State"]
    latest: Annotated[str, "Latest version; empty where none is resolved"]


class PackageObject(PackageSummary):
    """A package with its versions."""

    proof: Annotated[ProofObject, "How the owner of its namespace is proven"]
    versions: Annotated[list[VersionObject], "Versions, highest first"]
    downloads: Annotated[dict[str, int], "Downloads by day"]
    dependents: Annotated[list[str], "Packages that require it"]
    readers: Annotated[list[str] | UnsetType, "For members of its namespace: accounts that may read it"] = UNSET
    copies: Annotated[list[str] | UnsetType, "In the answer to a quarantine: other packages of the same bytes"] = UNSET
    more_copies: Annotated[bool | UnsetType, "In that answer: whether there may be others that are not named"] = UNSET


class NamespaceDetails(NamespaceObject):
    """A namespace with a page of its packages."""

    packages: Annotated[list[PackageSummary], "A page of its packages"]
    next: Annotated[str | None, "Name after which the next page begins; null at the end"]
    members: Annotated[dict[str, Role] | UnsetType, "For members: role of each account"] = UNSET


class PackageRequest(Struct, forbid_unknown_fields=True):
    """An access or a state to set, or ``NAMESPACE/NAME`` of the package to redirect to."""

    access: Access | None = None
    renamed_to: str = ""
    status: Literal["active", "archived", "deprecated", "quarantined", "deleted"] | None = None
    reason: str = ""
    successor: str = ""


class VersionRequest(Struct, forbid_unknown_fields=True):
    """A state to set."""

    status: Literal["active", "deprecated", "yanked", "quarantined"]
    reason: str = ""
    successor: str = ""


class FindingObject(Struct):
    """What a rule found in a skill."""

    code: str
    level: str
    message: str
    place: str
    fix: str


class PublicationObject(Struct):
    """A publication: created, repeated when the same bytes were there, or checked for a dry run of another."""

    package: str
    version: str
    status: Literal["created", "repeated", "checked"]
    digest: str
    uploaded: str
    size: int
    files: list[FileObject]
    access: Access
    findings: list[FindingObject]


class UploadRequest(Struct, forbid_unknown_fields=True):
    """An archive to upload."""

    size: int
    digest: str


class UploadObject(Struct):
    """An upload; it continues at ``offset``, and is forgotten when it ``expires``."""

    id: str
    size: int
    digest: str
    offset: int
    expires: float


class TokenRequest(Struct, forbid_unknown_fields=True):
    """A token to make; ``expires_in`` is in seconds. Operators also name an account, which is made if it is new."""

    name: str
    scopes: tuple[str, ...] = ("publish",)
    expires_in: float | None = None
    account: str = ""


class IssuedToken(Struct):
    """A new token."""

    id: Annotated[str, "ID"]
    account: Annotated[str, "Account that it acts for"]
    token: Annotated[str, "Secret, shown once"]
    warnings: Annotated[list[str], "Scopes that allow nothing yet"] = []


class TokenObject(Struct):
    """A token without its secret."""

    id: Annotated[str, "ID"]
    name: Annotated[str, "Name"]
    account: Annotated[str, "Account that it acts for"]
    scopes: Annotated[list[str], "Scopes"]
    created: Annotated[float, "Time of creation, in seconds since the epoch"]
    expires: Annotated[float | None, "Time of its end; null if unlimited"]
    used: Annotated[float | None, "Time of its last use; null before"]
    revoked: Annotated[float | None, "Time of its revocation; null unless revoked"]


class TokenList(Struct):
    """A page of the tokens of the caller's account, for an operator of all; the next one begins behind ``next``.

    A token without the scope ``admin``, or with a limit to namespaces, sees only itself.
    """

    tokens: list[TokenObject]
    next: str | None


class AccountObject(Struct):
    """An account."""

    account: Annotated[str, "Name"]
    created: Annotated[float, "Time of creation, in seconds since the epoch"]
    operator: Annotated[bool, "Whether it is an operator"]
    issuer: Annotated[str, "Issuer of the person who signs in to it; empty without one"]
    subject: Annotated[str, "Subject of that person there"]


class AccountList(Struct):
    """A page of accounts; the next one begins behind ``next``."""

    accounts: list[AccountObject]
    next: str | None


class AccountRequest(Struct, forbid_unknown_fields=True):
    """Whether an account is an operator."""

    operator: bool


class IdentityRequest(Struct, forbid_unknown_fields=True):
    """The person who signs in as an account: issuer and subject of OpenID Connect; empty ones unlink it."""

    issuer: str
    subject: str


class DeviceRequest(Struct):
    """A login on another device to begin; ``scope`` is separated by spaces."""

    client_id: str
    scope: str = ""


class DeviceAuthorization(Struct):
    """The codes of a login on another device."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class DevicePoll(Struct):
    """A poll for the token of a login on another device."""

    grant_type: str
    device_code: str
    client_id: str


class AccessToken(Struct):
    """A new token of an account, shown once; ``expires_in`` is in seconds."""

    access_token: str
    scope: str
    expires_in: int | UnsetType = UNSET
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105  # a kind


class TokenRevocation(Struct):
    """A token to revoke."""

    token: str


class OAuthProblem(Struct):
    """An error in the form of OAuth 2.0."""

    error: str
    error_description: str


class AuthorizationServer(Struct):
    """The metadata of the registry as an authorization server of logins on other devices."""

    issuer: str
    token_endpoint: str
    device_authorization_endpoint: str
    revocation_endpoint: str
    scopes_supported: list[str]
    grant_types_supported: list[str]
    response_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]


class AuditEntryObject(Struct):
    """A change."""

    number: Annotated[int, "Number, from 1"]
    at: Annotated[float, "Time, in seconds since the epoch"]
    account: Annotated[str, "Account that made the change"]
    action: Annotated[str, "Kind of change"]
    target: Annotated[str, "What was changed"]
    details: Annotated[dict[str, Any], "Further facts"]
    address: Annotated[str, "Address of the client"]
    request_id: Annotated[str, "ID of the request"]
    digest: Annotated[str, "Digest that chains it to the entry before"]


class AuditPage(Struct):
    """A page of the audit log, oldest first; the next one begins behind ``next``."""

    entries: list[AuditEntryObject]
    next: int | None


class RegistryStatistics(Struct):
    """How much there is."""

    namespaces: Annotated[int, "Number of namespaces"]
    packages: Annotated[int, "Number of packages; private ones for operators alone"]
    versions: Annotated[int, "Number of versions"]
    downloads: Annotated[int, "Number of downloads"]
    bytes: Annotated[int, "Bytes of all artifacts"]


def read_answer(answer: Mapping[str, object], kind: type[A]) -> A:
    """Return what a registry answered, without unknown fields. Raises ValidationError (``REGISTRY_ANSWER``)."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ValidationError("REGISTRY_ANSWER", f"the answer has another form: {error}") from error


def make(kind: type[T], *values: Any, **fields: Any) -> T:
    """Return a document of ``kind``: its ``fields``, and the others from the first of ``values`` that has them."""
    for name, place in _sources(kind, tuple(fields), *map(type, values)):
        found = getattr(values[place], name)
        fields[name] = str(found) if isinstance(found, Digest) else found
    return kind(**fields)


@cache
def _sources(kind: type[T], given: Sequence[str], *types: type) -> list[tuple[str, int]]:
    """Return the fields of ``kind`` that are not ``given``, each with the place of the first type that has it."""
    wanted = [name for name in kind.__struct_fields__ if name not in given]
    places = [(name, [place for place, one in enumerate(types) if hasattr(one, name)]) for name in wanted]
    return [(name, found[0]) for name, found in places if found]


def namespace_object(namespace: Namespace) -> NamespaceObject:
    """Return a namespace as a document."""
    return make(NamespaceObject, namespace, proof=ProofObject(*namespace.proof))


def version_object(version: PackageVersion, package: Package, site: str, *, with_files: bool = False) -> VersionObject:
    """Return a version as a document; ``site`` is the address of the registry."""
    skill = version.skill
    url = f"{site}/api/registry/packages/{package.name}/{quote(version.version)}/download"
    files = [make(FileObject, one) for one in skill.files] if with_files else UNSET
    status = StateObject(*version.state)
    return make(VersionObject, version, skill.artifact, skill, status=status, url=url, files=files)


def publication_object(published: PublishedVersion, unmet: Iterable[str]) -> PublicationObject:
    """Return a publication as a document, with warnings about unmet requirements and yanked copies."""
    version, skill = published.version, published.version.skill
    fix = "Publish what it requires, or correct requires in skill.toml."
    missing = [
        FindingObject("DEPENDENCY_MISSING", "warning", f"no package of this registry meets {text}", "skill.toml", fix)
        for text in unmet
    ]
    again = [
        f"{published.package.name} {number} has the same bytes, and is yanked: {reason or 'no reason is given'}"
        for number, reason in published.yanked.items()
    ]
    fix = "Correct what it was yanked for, and publish a higher version; or yank this one."
    copies = [FindingObject("YANKED", "warning", text, "skill.toml", fix) for text in again]
    return make(
        PublicationObject,
        version,
        skill.artifact,
        package=str(version.package),
        status=published.how,
        files=[make(FileObject, one) for one in skill.files],
        access=published.package.access,
        findings=[*(make(FindingObject, one, place=str(one.place)) for one in skill.findings), *missing, *copies],
    )
