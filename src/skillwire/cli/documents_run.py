"""JSON documents that commands print with ``--json`` about publishing, running, access, certificates and the DHT.

See :mod:`skillwire.cli.documents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from msgspec import UnsetType

from skillwire.adapters.files.static_site import SiteChanges
from skillwire.cli import documents
from skillwire.cli.documents import DryRun, LanSkillObject
from skillwire.client.registry import PublishedPackage
from skillwire.errors import Diagnostics
from skillwire.executions.tasks import FieldKind
from skillwire.executions.view import ListedExecution
from skillwire.folder.report import CheckReport
from skillwire.model.access import TokenKind, TokenState
from skillwire.model.credential import CredentialKind
from skillwire.model.execution import ExecutionStatus, Priority
from skillwire.model.lan import DhtAnswer, DhtPong, DhtPut, DhtStatus
from skillwire.model.remote_execution import RemoteBlob, RemoteFailure
from skillwire.protocols.skill_sharing.judge import DocumentReport
from skillwire.protocols.skill_sharing.messages import Method
from skillwire.resolver.ladder import RungTrace
from skillwire.server.routes import registry_messages as messages


class InitDocument(DryRun):
    schema: Annotated[Literal["skillwire/init/1"], "A new skill"]
    name: Annotated[str, "Name"]
    path: Annotated[str, "Folder"]
    files: Annotated[list[str], "Files in it"]


class CheckDocument(CheckReport):
    schema: Annotated[Literal["skillwire/check/1"], "Result of check"]


class ValidateDocument(TypedDict):
    schema: Annotated[Literal["skillwire/validate/1"], "Result of validate"]
    documents: Annotated[list[DocumentReport], "The documents"]


class BuildDocument(TypedDict):
    schema: Annotated[Literal["skillwire/build/1"], "A built site"]
    site: Annotated[str, "Folder of the site"]
    skills: Annotated[int, "Number of published skills"]
    not_public: Annotated[int, "Number of skills left out because they are not public"]
    read: Annotated[int, "Number of skills read"]
    unchanged: Annotated[int, "Number of skills known from the previous build"]
    changes: Annotated[SiteChanges | None, "Changes on disk; null with --dry-run"]


ImportedSkill = TypedDict(
    "ImportedSkill",
    {
        "name": Annotated[str, "Name of the skill and its folder"],
        "state": Annotated[Literal["new", "replaced", "unchanged"], "Result for its folder"],
        "plugin": Annotated[str, "Its plugin"],
        "from": Annotated[str, "Source folder or URL"],
    },
)


class MarketplaceImportDocument(DryRun):
    schema: Annotated[Literal["skillwire/marketplace-import/1"], "Result of marketplace import"]
    marketplace: Annotated[str, "Name of the marketplace; empty without one"]
    plugins: Annotated[int, "Number of readable plugins"]
    skills: Annotated[list[ImportedSkill], "Imported skills by name"]
    failed: Annotated[dict[str, Diagnostics], "Errors by skill name"]


class MarketplaceExportDocument(DryRun):
    schema: Annotated[Literal["skillwire/marketplace-export/1"], "Result of marketplace export"]
    marketplace: Annotated[str, "Name of the marketplace"]
    path: Annotated[str, "The file"]
    skills: Annotated[list[str], "Names of the listed skills"]
    not_public: Annotated[int, "Number of skills left out because they are not public"]


class HealthCheckObject(TypedDict):
    entrypoint: Annotated[str | None, "Code file; null if a URL is requested"]
    export: Annotated[str | None, "Function in it; null if a URL is requested"]
    url: Annotated[str | None, "Requested URL; null if code runs"]
    interval: Annotated[int, "Seconds between the starts of two checks"]


class GrantChangesObject(TypedDict):
    since: Annotated[str, "Digest granted then"]
    network: Annotated[list[str], "New origins"]
    secrets: Annotated[list[str], "New variables"]
    new: Annotated[list[str], "New files"]
    changed: Annotated[list[str], "Changed files"]
    gone: Annotated[list[str], "Removed files"]


class PermissionFields(TypedDict):
    network: Annotated[list[str], "Reachable origins"]
    secrets: Annotated[list[str], "Variables it receives"]


class GrantRequestObject(PermissionFields):
    name: Annotated[str, "Name"]
    version: Annotated[str, "Version"]
    path: Annotated[str, "Folder, or package of the registry"]
    digest: Annotated[str, "Digest of the published artifact, which the grant is for"]
    executor: Annotated[Literal["python", "http"], "Executor"]
    entrypoint: Annotated[str | None, "Code file; null if an API is called"]
    url: Annotated[str | None, "Called API; null if code runs"]
    health: Annotated[HealthCheckObject | None, "Health check; null without one"]
    files: Annotated[int, "Number of files"]
    size: Annotated[int, "Bytes of all files"]
    granted: Annotated[bool, "Whether it may run now"]
    granted_before: Annotated[bool, "Whether this version had been granted before"]
    changes: Annotated[GrantChangesObject | None, "Changes since the last grant; null without one"]


class GrantAddDocument(DryRun):
    schema: Annotated[Literal["skillwire/grant-add/1"], "Requested permissions, and whether they were granted"]
    skills: Annotated[list[GrantRequestObject], "The skills"]


class GrantObject(PermissionFields):
    name: Annotated[str, "Skill"]
    version: Annotated[str, "Version"]
    digest: Annotated[str, "Artifact that may run"]
    by: Annotated[str, "Person who granted it"]
    at: Annotated[str, "Time of the grant, RFC 3339 in UTC"]
    revoked: Annotated[bool, "Whether it was, or would be, revoked"]


class GrantListDocument(DryRun):
    schema: Annotated[Literal["skillwire/grant-list/1"], "Grants, oldest first"]
    grants: Annotated[list[GrantObject], "The grants; with revoke, the revoked ones"]


class WorkerDocument(TypedDict):
    schema: Annotated[Literal["skillwire/worker/1"], "A started worker"]
    workers: Annotated[int, "Maximum number of concurrent executions"]
    grant_all: Annotated[bool, "Whether skills run without a grant"]


class ExecutionObject(TypedDict):
    execution_id: Annotated[str | None, "ID at the provider; null if the output came at once without one"]
    skill_id: Annotated[str, "Skill Sharing ID of the skill"]
    reference: Annotated[str, "Reference of the skill; empty if only the status URL is known"]
    status: Annotated[ExecutionStatus, "Status"]
    cancelled: Annotated[bool, "Whether it was cancelled; its status is failed then"]
    output: Annotated[object, "Output; null without one"]
    encoding: Annotated[Literal["json", "base64"], "Encoding of output"]
    content_type: Annotated[str, "Media type of an output that came at once"]
    error: Annotated[RemoteFailure | None, "The error; null unless it failed or timed out"]
    created_at: Annotated[str | None, "Time of acceptance, from the provider; null if unknown"]
    updated_at: Annotated[str | None, "Time of the last change, from the provider; null if unknown"]
    completed_at: Annotated[str | None, "Time of the end, from the provider; null if unknown"]
    status_url: Annotated[str | None, "Status URL; null if unknown"]
    result_url: Annotated[str | None, "Output URL; null if unknown"]
    summary: Annotated[str, "Skills Protocol: summary of the result; empty otherwise"]
    log: Annotated[str, "Skills Protocol: end of the log"]
    blobs: Annotated[tuple[RemoteBlob, ...], "Skills Protocol: output files"]


class SkippedProviderObject(TypedDict):
    skill: Annotated[LanSkillObject | None, "Its skill; null if no agent announces it"]
    origin: Annotated[str, "URL of its publisher"]
    code: Annotated[str, "Reason, as a code"]
    reason: Annotated[str, "Reason, as text"]


class CalledProvider(TypedDict):
    skill: Annotated[LanSkillObject | None, "The skill that responded; null if no agent announces it"]
    origin: Annotated[str, "URL of its publisher"]
    passed_over: Annotated[list[SkippedProviderObject], "Skipped providers"]


class CallProvider(TypedDict):
    lan: NotRequired[Annotated[CalledProvider, "For lan: calls: the provider"]]


class CallDocument(ExecutionObject, CallProvider):
    schema: Annotated[Literal["skillwire/call/1"], "A completed call, or an accepted one with --no-wait"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]


class RequestObject(TypedDict):
    method: Annotated[Method, "Method"]
    url: Annotated[str, "URL"]
    headers: Annotated[dict[str, str], "Header fields; credentials are shown as ..."]
    body: Annotated[Mapping[str, object] | None, "InvocationRequest; null if the inputs are in the URL"]


class CallPlanDocument(TypedDict):
    schema: Annotated[Literal["skillwire/call-plan/1"], "Request of a call, with --dry-run"]
    skill_id: Annotated[str, "ID of the skill"]
    request: Annotated[RequestObject, "The request"]
    inputs: Annotated[Mapping[str, object], "Inputs, with defaults"]


class RecentExecution(TypedDict):
    execution_id: Annotated[str, "ID at the provider"]
    skill_id: Annotated[str, "ID of the skill"]
    reference: Annotated[str, "Reference of the skill"]
    created_at: Annotated[str, "Time of the call, RFC 3339 in UTC"]
    status_url: Annotated[str | None, "Status URL; null if unknown"]


class ExecutionsListDocument(TypedDict):
    schema: Annotated[Literal["skillwire/executions-list/1"], "Recent calls from this machine, newest first"]
    total: Annotated[int, "Number of all recent calls"]
    executions: Annotated[list[RecentExecution], "The executions, at most --limit"]


class TopDocument(TypedDict):
    schema: Annotated[Literal["skillwire/top/1"], "Executions and the local network, as top shows them"]
    at: Annotated[str, "Time of the list, RFC 3339 in UTC"]
    counts: Annotated[dict[str, int], "Number of executions by status"]
    executions: Annotated[list[ListedExecution], "The newest executions"]
    skills: Annotated[list[LanSkillObject], "Skills of the local network"]
    notes: Annotated[list[str], "What could not be read"]


class ExecutionsShowDocument(ExecutionObject):
    schema: Annotated[Literal["skillwire/executions-show/1"], "Status of an execution"]


class ExecutionsResultDocument(ExecutionObject):
    schema: Annotated[Literal["skillwire/executions-result/1"], "A completed execution"]


class ExecutionsCancelDocument(ExecutionObject):
    schema: Annotated[Literal["skillwire/executions-cancel/1"], "An execution after the request to cancel it"]


class TaskObject(TypedDict):
    id: Annotated[str, "Execution ID"]
    skill: Annotated[str, "Skill"]
    version: Annotated[str, "Version"]
    title: Annotated[str, "Title"]
    description: Annotated[str, "Description; may be empty"]
    status: Annotated[ExecutionStatus, "Status of the execution"]
    held_by: Annotated[str | None, "Person who has claimed it; null if unclaimed"]
    mine: Annotated[bool, "Whether you have claimed it"]
    priority: Annotated[Priority, "Priority from the caller"]
    caller: Annotated[str, "Caller, unverified"]
    created_at: Annotated[str, "RFC 3339 in UTC"]
    due_at: Annotated[str, "Deadline, RFC 3339 in UTC"]


class InboxDocument(TypedDict):
    schema: Annotated[Literal["skillwire/inbox/1"], "Open tasks"]
    tasks: Annotated[list[TaskObject], "Tasks, the most urgent first"]


class TaskField(TypedDict):
    name: Annotated[str, "Name, with dots for nested objects"]
    kind: Annotated[FieldKind, "Kind of value"]
    label: Annotated[str, "Label"]
    description: Annotated[str, "Description; may be empty"]
    required: Annotated[bool, "Whether it is required"]
    choices: Annotated[list[str], "Choices, for a choice"]
    default: Annotated[str | None, "Default; null without one"]


Did = Literal["shown", "claimed", "completed", "rejected", "released"]


class TaskDocument(DryRun):
    schema: Annotated[Literal["skillwire/task/1"], "A task after the command"]
    did: Annotated[Did, "What the command did"]
    task: Annotated[TaskObject, "The task"]
    inputs: Annotated[Mapping[str, object], "Inputs by name"]
    output_schema: Annotated[Mapping[str, object] | None, "JSON Schema of the output; null if any JSON is valid"]
    fields: Annotated[list[TaskField], "Fields of the form, as inbox complete accepts them"]


class LoginObject(TypedDict):
    origin: Annotated[str, "The only origin it is sent to"]
    kind: Annotated[CredentialKind, "Kind"]
    header: Annotated[str, "Header field that carries it"]
    expires_at: Annotated[str | None, "RFC 3339 in UTC; null if unknown"]
    renewable: Annotated[bool, "Whether it is renewed automatically"]
    server: Annotated[str | None, "Origin of the authorization server; null without one"]
    scope: Annotated[str | None, "Granted scope; null unless it is OAuth 2.0"]
    stored_in: Annotated[Literal["file", "keyring"], "Where its secrets are stored"]


class AuthLoginDocument(LoginObject):
    schema: Annotated[Literal["skillwire/auth-login/1"], "A new login"]
    verified: Annotated[bool, "Whether the credential was tried; false if the server failed with a 5xx status"]


class AuthLoginPlanDocument(TypedDict):
    schema: Annotated[Literal["skillwire/auth-login-plan/1"], "Plan of a login, with --dry-run"]
    origin: Annotated[str, "The only origin the credential would be sent to"]
    kind: Annotated[CredentialKind, "Kind"]
    header: Annotated[str | None, "Header field of an API key; null for other kinds"]
    hosts: Annotated[list[str], "Authorization servers that the origin names"]
    scopes: Annotated[list[str], "Scopes to request"]
    stored_in: Annotated[Literal["file", "keyring"], "Where its secrets would be stored"]


class AuthStatusDocument(TypedDict):
    schema: Annotated[Literal["skillwire/auth-status/1"], "Logins"]
    logins: Annotated[list[LoginObject], "Logins by origin"]


class LogoutObject(TypedDict):
    origin: Annotated[str, "Origin"]
    revoked: Annotated[bool, "Whether the server revoked the token"]


class AuthLogoutDocument(DryRun):
    schema: Annotated[Literal["skillwire/auth-logout/1"], "Ended logins"]
    logouts: Annotated[list[LogoutObject], "The origins"]


class TokenObject(TypedDict):
    id: Annotated[str | None, "ID for list, revoke and rotate; null with --dry-run before it is created"]
    name: Annotated[str, "Name of its user"]
    kind: Annotated[TokenKind, "Kind"]
    state: Annotated[TokenState, "State"]
    skills: Annotated[list[str], "Accessible skills; * for every skill"]
    scopes: Annotated[list[str], "Additional scopes"]
    created_at: Annotated[str, "RFC 3339 in UTC"]
    expires_at: Annotated[str | None, "RFC 3339 in UTC; null if unlimited"]
    revoked_at: Annotated[str | None, "RFC 3339 in UTC; null unless revoked"]


class TokenDocument(DryRun):
    schema: Annotated[Literal["skillwire/token/1"], "A created or revoked token"]
    token: Annotated[TokenObject, "The token"]
    secret: Annotated[str | None, "Secret, printed only once; null if none was created"]
    replaces: Annotated[TokenObject | None, "Replaced token; null without one"]


class TokensDocument(TypedDict):
    schema: Annotated[Literal["skillwire/tokens/1"], "Tokens, oldest first, without secrets"]
    tokens: Annotated[list[TokenObject], "The tokens"]


class CertificateNames(TypedDict):
    agents: Annotated[list[str], "Certified agents"]
    skills: Annotated[list[str], "Certified skills, of any agent"]
    hosts: Annotated[list[str], "Addresses and host names that may be announced"]


class CaDocument(DryRun):
    schema: Annotated[Literal["skillwire/ca/1"], "A new certificate authority, without its keys"]
    folder: Annotated[str, "Folder"]
    root: Annotated[str, "File of the root certificate, which agents trust"]
    center: Annotated[str, "File of the certificate of the issuing SkillCenter CA"]
    revocations: Annotated[str, "File of the signed revocation list"]
    encrypted: Annotated[bool, "Whether its keys are encrypted"]


class CaIssueDocument(DryRun, CertificateNames):
    schema: Annotated[Literal["skillwire/ca-issue/1"], "An issued certificate"]
    serial: Annotated[str | None, "Serial number in hexadecimal; null with --dry-run"]
    expires_at: Annotated[str, "RFC 3339 in UTC"]
    certificate: Annotated[str, "File of the certificate"]
    key: Annotated[str | None, "File of the generated key; null if a request brought its own"]


class IssuedCertificate(CertificateNames):
    serial: Annotated[str, "Serial number in hexadecimal"]
    authority: Annotated[str | None, "Name of a SkillCenter CA; null for an agent or a skill"]
    issuer: Annotated[str | None, "Serial number of the issuing SkillCenter CA; null if the root issued it"]
    state: Annotated[TokenState, "State"]
    issued_at: Annotated[str, "RFC 3339 in UTC"]
    expires_at: Annotated[str, "RFC 3339 in UTC"]
    revoked_at: Annotated[str | None, "RFC 3339 in UTC; null unless it or its issuer was revoked"]
    renews: Annotated[str | None, "Serial number of the certificate that requested it; null if a person did"]


class CaListDocument(DryRun):
    schema: Annotated[Literal["skillwire/ca-list/1"], "Issued or revoked certificates, including SkillCenter CAs"]
    certificates: Annotated[list[IssuedCertificate], "Certificates, oldest first"]


class AgentCertificate(CertificateNames):
    serial: Annotated[str, "Serial number in hexadecimal"]
    by: Annotated[Literal["ourselves", "authority"], "Signer"]
    expires_at: Annotated[str, "RFC 3339 in UTC"]
    state: Annotated[TokenState, "State, as known on this machine"]
    good: Annotated[bool, "Whether it is neither expired nor revoked"]


class KeyDocument(TypedDict):
    schema: Annotated[Literal["skillwire/key/1"], "The key and certificate of this agent, without secrets"]
    agent: Annotated[str | None, "Agent name; null before the first one"]
    key: Annotated[str | None, "File of the key; null without one"]
    fingerprint: Annotated[
        str | None, "SHA-256 of the public key, `sha256:` and 64 hexadecimal digits; null without one"
    ]
    certificate: Annotated[AgentCertificate | None, "The certificate; null without one"]


class KeyRequestDocument(DryRun, CertificateNames):
    schema: Annotated[Literal["skillwire/key-request/1"], "A certificate request of this agent, without secrets"]
    new: Annotated[bool, "Whether the key is new"]
    request: Annotated[str | None, "The request, PEM, for ca issue --request; null with --dry-run"]


class RegistryTrust(TypedDict):
    roots: Annotated[list[str], "Files of the root certificates"]
    intermediates: Annotated[list[str], "Files of the certificates of SkillCenter CAs"]
    renewFrom: Annotated[str, "Registry that renews the certificate"]


class KeyInstallDocument(DryRun):
    schema: Annotated[Literal["skillwire/key-install/1"], "An installed certificate"]
    key: Annotated[bool, "Whether a key was installed with it"]
    certificate: Annotated[AgentCertificate, "The certificate"]
    trust: NotRequired[Annotated[RegistryTrust, "Settings of discovery.trust that trust a registry, from enroll"]]


class ServeEvent(TypedDict):
    schema: Annotated[Literal["skillwire/serve/1"], "A line of serve"]


class ServeListeningEvent(ServeEvent):
    event: Annotated[Literal["listening"], "The first line: the server accepts requests"]
    address: Annotated[str, "URL on this machine"]
    announced: Annotated[list[str], "URLs announced on the local network; none without --lan"]
    base_url: Annotated[str, "--base-url, or the address"]
    skills: Annotated[int, "Number of served skills"]
    open: Annotated[int, "Number of public skills"]
    add: Annotated[str, "Command that adds a public skill; a hint without one"]


class ServePublishedEvent(ServeEvent):
    event: Annotated[Literal["published"], "A new revision is served"]
    revision: Annotated[int, "Revision, from 1"]
    skills: Annotated[int, "Number of public skills"]
    added: Annotated[int, "Number of new skills"]
    changed: Annotated[int, "Number of changed skills"]
    removed: Annotated[int, "Number of removed skills"]


class ServeBrokenEvent(ServeEvent):
    event: Annotated[Literal["broken"], "A skill cannot be published; one line for each error"]
    skill: Annotated[str, "Name of its folder"]
    serving: Annotated[bool, "Whether its last valid version is still served"]
    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    message: Annotated[str, "The problem"]
    place: Annotated[str, "File, line and column"]
    fix: Annotated[str, "What to do"]


class ServeLanEvent(ServeEvent):
    event: Annotated[
        Literal["lan", "dht"], "The server joined the local network or the DHT, or cannot join it and retries"
    ]
    agent: Annotated[str | None, "Announced agent name; null if it cannot join"]
    reason: Annotated[str | None, "Reason why it cannot join; null if it joined"]


class ServeStoppedEvent(ServeEvent):
    event: Annotated[Literal["stopped"], "The last line: all responses were finished, or their time was over"]


class NotPublishedObject(TypedDict):
    folder: Annotated[str, "Folder of the skill"]
    error: Annotated[Diagnostics, "Why it was not published"]


class PublishDocument(DryRun):
    schema: Annotated[Literal["skillwire/publish/1"], "Published skills"]
    published: Annotated[list[PublishedPackage], "The skills that the registry has now"]
    failed: Annotated[list[NotPublishedObject], "The skills that it has not"]


class PackageStateDocument(TypedDict):
    schema: Annotated[Literal["skillwire/package-state/1"], "A changed state of a package or a version"]
    reference: Annotated[str, "NAMESPACE/NAME, or with @VERSION"]
    status: Annotated[str, "Its status now"]
    reason: Annotated[str | None, "Why; null without a reason"]
    successor: Annotated[str | None, "Package to use instead; null without one"]
    copies: Annotated[list[str], "Other packages and versions of the same bytes, after a quarantine"]
    more_copies: Annotated[bool, "Whether there may be others that are not named"]


class NamespacesAnswer(TypedDict):
    namespaces: Annotated[list[messages.NamespaceObject], "The namespaces"]


class AccountsAnswer(TypedDict):
    accounts: Annotated[list[messages.AccountObject], "The accounts"]


class TokensAnswer(TypedDict):
    tokens: Annotated[list[messages.TokenObject], "The tokens"]


class AuditAnswer(TypedDict):
    entries: Annotated[list[messages.AuditEntryObject], "Changes, oldest first"]


class AuditVerdict(TypedDict):
    verified: Annotated[int, "Number of verified entries"]
    digest: Annotated[str | None, "Digest of the last entry; null without one"]


RegistryAnswer = (
    messages.CallerAccount | messages.NamespaceObject | messages.NamespaceDetails | messages.PackageObject |
    messages.IssuedToken | messages.RegistryStatistics | messages.Done | NamespacesAnswer | AccountsAnswer |
    TokensAnswer | AuditAnswer | AuditVerdict
)  # fmt: skip


class RegistryDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry/1"], "Answer of a registry, or rows of a list"]
    answer: Annotated[RegistryAnswer, "The answer as docs/reference/registry-api.md describes it"]


class RegistryInitDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry-init/1"], "The first operator of a registry"]
    account: Annotated[str, "Name of the account"]
    secret: Annotated[str, "Its token, printed only once"]


class RegistryExportDocument(TypedDict):
    schema: Annotated[Literal["skillwire/registry-export/1"], "An export, import or copy of a registry"]
    folder: Annotated[str, "Folder of the export"]
    rows: Annotated[dict[str, int], "Rows by table"]


class DhtPutFields(TypedDict):
    schema: Annotated[Literal["skillwire/dht-put/1"], "A record that dht put stored, or dht remove removed"]
    skill_id: Annotated[str, "The skill"]
    removed: Annotated[bool, "Whether the record is a tombstone"]


class DhtFindFields(TypedDict):
    schema: Annotated[Literal["skillwire/dht-find/1"], "Records of the DHT, as dht find and dht get show them"]


class DhtPingFields(TypedDict):
    schema: Annotated[Literal["skillwire/dht-ping/1"], "A node that answered dht ping"]
    address: Annotated[str, "HOST:PORT that was asked"]


class DhtStatusFields(TypedDict):
    schema: Annotated[Literal["skillwire/dht-status/1"], "The state of a node, as dht status shows it"]
    process: Annotated[int | None, "Process of this machine's node; null for one that joined for this command"]


class DhtServeDocument(TypedDict):
    schema: Annotated[Literal["skillwire/dht-serve/1"], "A node that dht serve has started"]
    node_id: Annotated[str, "ID of the node, hexadecimal"]
    addresses: Annotated[list[str], "HOST:PORT that it listens on"]


#: What stands for the value of an absent field.
ABSENT: Final = UnsetType
#: Documents with the fields of a value after their own.
DhtFindDocument = tuple[DhtFindFields, DhtAnswer]
DhtPutDocument = tuple[DhtPutFields, DhtPut]
DhtPingDocument = tuple[DhtPingFields, DhtPong]
DhtStatusDocument = tuple[DhtStatusFields, DhtStatus]
Event = (
    documents.Event | ServeListeningEvent | ServePublishedEvent | ServeBrokenEvent | ServeLanEvent | ServeStoppedEvent
)
Document = (
    documents.Document | InitDocument | CheckDocument | ValidateDocument | BuildDocument | MarketplaceImportDocument |
    MarketplaceExportDocument | GrantAddDocument | GrantListDocument | WorkerDocument | CallDocument |
    CallPlanDocument | ExecutionsListDocument | TopDocument | ExecutionsShowDocument | ExecutionsResultDocument |
    ExecutionsCancelDocument | InboxDocument | TaskDocument | AuthLoginDocument | AuthLoginPlanDocument |
    AuthStatusDocument | AuthLogoutDocument | TokenDocument | TokensDocument | CaDocument | CaIssueDocument |
    CaListDocument | KeyDocument | KeyRequestDocument | KeyInstallDocument | PublishDocument | PackageStateDocument |
    RegistryDocument | RegistryInitDocument | RegistryExportDocument | DhtFindDocument | DhtPutDocument |
    DhtPingDocument | DhtServeDocument | DhtStatusDocument
)  # fmt: skip
