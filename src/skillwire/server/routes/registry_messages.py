"""The documents of the registry's API, and how values become them. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType

from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import Namespace, Package, PackageVersion, Role, Status
from skillwire.registry.packages import PublishedVersion

T = TypeVar("T", bound=Struct)


class RegistryInfo(Struct):
    """The registry itself; without an operator it ``needs_setup``."""

    site: str
    needs_setup: bool
    registry: Literal[True] = True


class SetupRequest(Struct, forbid_unknown_fields=True):
    """The one-time code that the server printed, and the account to make the first operator."""

    code: str
    account: str


class CallerAccount(Struct):
    """The account of a caller, what its token allows, and namespace → role."""

    account: str
    operator: bool
    scopes: list[str]
    namespaces: dict[str, Role]


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
    """How a namespace is proven; ``kind`` is empty while it is not."""

    kind: Literal["", "dns", "file", "operator"]
    domain: str
    at: float


class NamespaceObject(Struct):
    """A namespace."""

    name: str
    created: float
    proof: ProofObject


class NamespaceList(Struct):
    """A page of namespaces; the next one begins behind ``next``."""

    namespaces: list[NamespaceObject]
    next: str | None


class StateObject(Struct, omit_defaults=True):
    """A state, in the shape of PEP 792."""

    status: Status
    reason: str = ""
    successor: str = ""


class FileObject(Struct):
    """A file of a skill."""

    path: str
    size: int
    digest: str
    executable: bool


class VersionObject(Struct):
    """A version; ``digest`` is that of the artifact at ``url``, ``uploaded`` that of what its publisher sent.

    Only the answer about one version has ``files``, and that to a quarantine ``copies``: other packages of these bytes,
    and versions of this one as ``namespace/name@version``; and ``more_copies``: whether there may be others that it
    does not name.
    """

    version: str
    published: float
    publisher: str
    digest: str
    uploaded: str
    size: int
    media_type: str
    description: str
    license: str | None
    requires: list[str]
    status: StateObject
    url: str
    files: list[FileObject] | UnsetType = UNSET
    copies: list[str] | UnsetType = UNSET
    more_copies: bool | UnsetType = UNSET


class PackageSummary(Struct):
    """A package; ``latest`` is empty where no version is resolved."""

    namespace: str
    name: str
    created: float
    access: Access
    status: StateObject
    latest: str


class PackageObject(PackageSummary):
    """A package with its versions, highest first, and downloads by day; ``readers`` for members of its namespace.

    The answer to a quarantine has ``copies``, other packages of the same bytes, and ``more_copies``: whether there may
    be others that it does not name.
    """

    proof: ProofObject
    versions: list[VersionObject]
    downloads: dict[str, int]
    dependents: list[str]
    readers: list[str] | UnsetType = UNSET
    copies: list[str] | UnsetType = UNSET
    more_copies: bool | UnsetType = UNSET


class NamespaceDetails(NamespaceObject):
    """A namespace with a page of its packages; ``members`` for its members."""

    packages: list[PackageSummary]
    next: str | None
    members: dict[str, Role] | UnsetType = UNSET


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
    operator: bool = False


class IssuedToken(Struct):
    """A new token; its secret ``token`` is shown once."""

    id: str
    account: str
    token: str


class TokenObject(Struct):
    """A token without its secret."""

    id: str
    name: str
    account: str
    scopes: list[str]
    created: float
    expires: float | None
    used: float | None
    revoked: float | None


class TokenList(Struct):
    """A page of the tokens of the caller's account, for an operator of all; the next one begins behind ``next``.

    A token without the scope ``admin``, or with a limit to namespaces, sees only itself.
    """

    tokens: list[TokenObject]
    next: str | None


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
    """A change; ``digest`` chains it to the entry before."""

    number: int
    at: float
    account: str
    action: str
    target: str
    details: dict[str, Any]
    address: str
    request_id: str
    digest: str


class AuditPage(Struct):
    """A page of the audit log, oldest first; the next one begins behind ``next``."""

    entries: list[AuditEntryObject]
    next: int | None


class RegistryStatistics(Struct):
    """How much there is; private packages are counted for operators alone."""

    namespaces: int
    packages: int
    versions: int
    downloads: int
    bytes: int


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
    """Return a publication as a document, with a warning for each requirement that nothing here meets."""
    version, skill = published.version, published.version.skill
    fix = "Publish what it requires, or correct requires in skill.toml."
    missing = [
        FindingObject("DEPENDENCY_MISSING", "warning", f"no package of this registry meets {text}", "skill.toml", fix)
        for text in unmet
    ]
    return make(
        PublicationObject,
        version,
        skill.artifact,
        package=str(version.package),
        status=published.how,
        files=[make(FileObject, one) for one in skill.files],
        access=published.package.access,
        findings=[*(make(FindingObject, one, place=str(one.place)) for one in skill.findings), *missing],
    )
