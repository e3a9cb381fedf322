"""JSON documents that commands print with ``--json`` about skills, installing, settings and errors.

A command builds a dictionary of one of these types, so the type checker and the published schema
(:mod:`skillwire.cli.schemas`) read the same declaration. The texts in ``Annotated`` describe the fields. Commands
import these modules for type checking only. Every document also has ``findings``, which ``Output.document`` adds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Never, NotRequired, TypedDict


class PlaceObject(TypedDict):
    source: Annotated[str, "File or URL"]
    line: Annotated[int | None, "Line, from 1; null if unknown"]
    column: Annotated[int | None, "Column in characters, from 1; null if unknown"]
    end_column: Annotated[int | None, "Column after the last character; null if unknown"]
    excerpt: Annotated[str | None, "Text of the line; null if unknown"]


class FindingObject(TypedDict):
    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    level: Annotated[Literal["error", "warning", "note"], "Severity"]
    message: Annotated[str, "The problem"]
    place: Annotated[PlaceObject | None, "Location; null without one"]
    fix: Annotated[str, "What to do"]


class WithFindings(TypedDict):
    findings: Annotated[list[FindingObject], "Skipped or questionable items"]


class ErrorObject(TypedDict):
    code: Annotated[str, "Code; skillwire explain CODE explains it"]
    message: Annotated[str, "What happened in this case"]
    cause: Annotated[str, "Usual cause"]
    place: Annotated[PlaceObject | None, "Location; null without one"]
    fix: Annotated[str, "What to do"]
    retryable: Annotated[bool, "Whether the same call may succeed later"]
    documentation: Annotated[str, "Page and anchor of the documentation"]
    details: Annotated[dict[str, Any], "Facts for programs, specific to the code; not stable"]


class ErrorDocument(TypedDict):
    """Any command that fails"""

    schema: Literal["skillwire/error/1"]
    error: Annotated[ErrorObject, "The error"]


class SharedObject(TypedDict):
    id: Annotated[str, "ID in Skill Sharing"]
    title: Annotated[str, "Name for people"]
    capability_type: Annotated[Literal["plugin", "api", "knowledge", "task"], "Capability type"]
    access: Annotated[Literal["public", "restricted", "private"], "Who may see and invoke it"]
    provider: Annotated[str | None, "Publisher; null if a registry does not name it"]
    descriptor_url: Annotated[str, "URL of its descriptor"]


class RpcObject(TypedDict):
    endpoint: Annotated[str, "URL of the endpoint"]
    namespace: Annotated[str, "Namespace; empty if the endpoint does not name one"]
    kind: Annotated[Literal["action", "instruction", ""], "Kind; empty if the endpoint does not name one"]


class RefObject(TypedDict):
    name: Annotated[str, "Name"]
    reference: Annotated[str, "Reference for commands"]
    origin: Annotated[
        str, "Publisher's location: a URL without the well-known part, an endpoint, or path: and a folder"
    ]
    description: Annotated[str, "What it does and when to use it"]
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "sha256: and 64 hexadecimal digits; null if the origin publishes none"]
    found_via: Annotated[str, "Sources that listed it"]
    shared: Annotated[SharedObject | None, "Skill Sharing fields; null if not asked or not listed there"]
    rpc: Annotated[RpcObject | None, "Skills Protocol fields; null if not found at an endpoint"]


class LanSkillObject(TypedDict):
    agent_id: Annotated[str, "Agent that offers it; empty if known only from other agents"]
    skill_id: Annotated[str, "ID in Skill Discovery"]
    skill_type: Annotated[str, "Type, such as tool-skill; empty if known only from other agents"]
    endpoint: Annotated[str, "HOST:PORT of its server"]
    capabilities: Annotated[list[str], "Capabilities"]
    scenes: Annotated[list[str], "Scenes it takes part in"]
    status: Annotated[
        Literal["HEALTHY", "DEGRADED", "UNHEALTHY", "MAINTENANCE", "OFFLINE", "UNKNOWN"], "Health of the skill"
    ]
    trust: Annotated[
        Literal["verified", "unverified", "not known"],
        "Whether its key has a certificate chain to a configured root; not known for skills known from other agents",
    ]
    found_via: Annotated[Literal["multicast", "mdns", "cache"], "Source of the record"]
    heard_at: Annotated[float, "Time of the last sign of life, in seconds since the epoch"]
    stale: Annotated[bool, "Whether a network problem is suspected instead of a skill failure"]


class FindHit(RefObject):
    score: Annotated[float, "Higher is better"]
    lan: NotRequired[Annotated[LanSkillObject, "With --lan: local network fields"]]


class FindDocument(TypedDict):
    """Search results, best first"""

    schema: Literal["skillwire/find/1"]
    query: Annotated[str, "Search words"]
    total: Annotated[int, "Number of matching skills"]
    hits: Annotated[list[FindHit], "The best matches"]


class FileObject(TypedDict):
    path: Annotated[str, "Path"]
    size: Annotated[int, "Bytes"]
    executable: Annotated[bool, "Whether it is executable"]


ArtifactType = Literal["skill-md", "archive", "files", "folder", "none"]


class ShowDocument(TypedDict):
    """A skill"""

    schema: Literal["skillwire/show/1"]
    skill: Annotated[RefObject, "The skill"]
    type: Annotated[ArtifactType, "Artifact type; none if only a descriptor exists"]
    descriptor: NotRequired[Annotated[Any, "Its Skill Descriptor, SkillDescriptor of Skill Sharing"]]
    manifest: NotRequired[Annotated[dict[str, Any], "At a Skills Protocol endpoint: content of skill.toml"]]
    frontmatter: NotRequired[Annotated[Any, "At a Skills Protocol endpoint: frontmatter of SKILL.md; null if unknown"]]
    body: NotRequired[Annotated[str, "With --body: the instructions"]]
    files: NotRequired[Annotated[list[FileObject], "With --files: the files"]]


class CatDocument(TypedDict):
    """A file of a skill"""

    schema: Literal["skillwire/cat/1"]
    reference: Annotated[str, "Reference as typed"]
    path: Annotated[str, "Path of the file"]
    size: Annotated[int, "Bytes"]
    encoding: Annotated[Literal["text", "base64"], "Encoding of content"]
    content: Annotated[str, "Content of the file"]


class FolderFields(TypedDict):
    folders: Annotated[list[str], "Skills folders that contain the files, relative to the root"]
    links: Annotated[list[str], "Skills folders that link to the first of them"]


class LockedObject(FolderFields):
    name: Annotated[str, "Name"]
    origin: Annotated[str, "Publisher's location"]
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "sha256: and 64 hexadecimal digits; null if the origin publishes none"]
    first_seen: Annotated[str, "First installation of this digest, RFC 3339 in UTC"]
    agents: Annotated[list[str], "Agents it is installed for"]
    files: Annotated[int, "Number of files"]


class VersionObject(TypedDict):
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "sha256: and 64 hexadecimal digits; null if the origin publishes none"]


class ComparisonObject(TypedDict):
    name: Annotated[str, "Name"]
    state: Annotated[Literal["current", "changed", "unverifiable", "gone", "unreachable"], "Result of the comparison"]
    installed: Annotated[VersionObject, "Installed version"]
    latest: Annotated[VersionObject | None, "Version at the origin; null if unknown"]
    error: Annotated[str | None, "Error code; null if the origin was read"]


class ReportFields(TypedDict):
    root: Annotated[str, "Folder that paths are relative to"]
    installed: Annotated[list[LockedObject], "Installed skills"]
    updated: Annotated[list[str], "Installed skills that replaced an earlier version"]
    unchanged: Annotated[list[str], "Skills that were already installed"]
    failed: Annotated[dict[str, ErrorObject], "Errors by skill name"]


class AddDocument(ReportFields):
    """Result of add"""

    schema: Literal["skillwire/add/1"]


class UpdateDocument(ReportFields):
    """Result of update"""

    schema: Literal["skillwire/update/1"]
    compared: Annotated[list[ComparisonObject], "Each skill compared with its origin"]


class PlanSkill(FolderFields):
    name: Annotated[str, "Name"]
    state: Annotated[Literal["new", "update", "unchanged", "conflict"], "Planned action"]
    reason: Annotated[Any, "Reason of a conflict; otherwise empty or null"]
    origin: Annotated[str, "Publisher's location"]


class PlanDocument(TypedDict):
    """Plan of add or update, with --dry-run"""

    schema: Literal["skillwire/plan/1"]
    compared: NotRequired[Annotated[list[ComparisonObject], "With update: each skill compared with its origin"]]
    skills: Annotated[list[PlanSkill], "Planned skills"]
    unknown_origins: Annotated[list[str], "Origins without your consent"]
    consent: Annotated[bool, "Whether --yes would give that consent"]
    overwrite: Annotated[bool, "Whether --overwrite would replace existing files"]


class ListDocument(TypedDict):
    """Installed skills"""

    schema: Literal["skillwire/list/1"]
    root: Annotated[str, "Folder that paths are relative to"]
    skills: Annotated[list[LockedObject], "Skills by name"]


class RemoveDocument(TypedDict):
    """Result of remove"""

    schema: Literal["skillwire/remove/1"]
    dry_run: Annotated[bool, "Whether nothing was changed because of --dry-run"]
    skills: Annotated[list[LockedObject], "Removed skills"]
    changed: Annotated[list[str], "Those with locally changed files"]


class OutdatedDocument(TypedDict):
    """Installed skills compared with their origins"""

    schema: Literal["skillwire/outdated/1"]
    skills: Annotated[list[ComparisonObject], "Comparisons by name"]


class VerifyDocument(TypedDict):
    """Installed skills that match the lock; a deviation gives an error document"""

    schema: Literal["skillwire/verify/1"]
    skills: Annotated[list[str], "Names"]
    deviations: Annotated[list[Never], "Always empty"]


class TrustedOrigin(TypedDict):
    origin: Annotated[str, "URL"]
    first_seen: Annotated[str, "First contact, RFC 3339 in UTC"]
    revoked: Annotated[bool, "Whether the consent was, or would be, withdrawn"]


class TrustDocument(TypedDict):
    """Trusted origins, or those revoked"""

    schema: Literal["skillwire/trust/1"]
    dry_run: Annotated[bool, "Whether nothing was changed because of --dry-run"]
    origins: Annotated[list[TrustedOrigin], "The origins"]


class LookupObject(TypedDict):
    url: Annotated[str, "Index URL that was requested"]
    answered_by: Annotated[Any, "URL that responded; null without a response"]
    age_seconds: Annotated[Any, "Age of the response"]
    fresh_for_seconds: Annotated[Any, "Time until the response must be revalidated"]
    generation: Annotated[Any, "Format generation of the index; null without one"]
    entries: Annotated[Any, "Number of listed skills; null without an index"]
    credential: Annotated[str | None, "Source of the credential sent; null without one"]
    address_policy: Annotated[str, "allowed, or the code of the refusal"]
    error: Annotated[ErrorObject | None, "The error; null if the index was read"]


class WhichSkill(RefObject):
    url: Annotated[str, "Artifact URL"]
    index: Annotated[str, "Index URL"]


class WhichTrust(TypedDict):
    origin: Annotated[str, "URL"]
    decision: Annotated[str, "Decision of add: allow, ask or refuse"]
    in_trusted_origins: Annotated[bool, "Whether the setting trusted_origins lists it"]
    known_since: Annotated[str | None, "First contact, RFC 3339 in UTC; null without one"]
    agreed: Annotated[bool, "Whether you have trusted it"]


class WhichInstalled(TypedDict):
    name: Annotated[str, "Name"]
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "Digest; null without one"]
    same_origin: Annotated[bool, "Whether it came from this origin"]
    current: Annotated[Any, "Whether it equals the origin's version; null if unknown"]
    intact: Annotated[bool, "Whether its files match the lock"]


class WhichDocument(TypedDict):
    """Resolution of a reference"""

    schema: Literal["skillwire/which/1"]
    reference: Annotated[str, "Reference as typed"]
    error: Annotated[ErrorObject | None, "The error; null if the reference was resolved"]
    skills: Annotated[list[WhichSkill], "Resolved skills"]
    why: Annotated[str, "Why this source won"]
    lookups: Annotated[list[LookupObject], "Searched locations, in order"]
    others: Annotated[list[RefObject], "Skills of that name in other sources"]
    other_lookups: Annotated[list[LookupObject], "Locations after the winning one"]
    trust: Annotated[WhichTrust | None, "Trust in the origin; null for a folder or an endpoint"]
    installed: Annotated[list[WhichInstalled], "Installed skills of that name"]


class DoctorCheck(TypedDict):
    section: Annotated[str, "Subject"]
    severity: Annotated[Literal["ok", "warning", "problem"], "Verdict"]
    what: Annotated[str, "The state found"]
    why: Annotated[str, "Why it matters; empty if ok"]
    fix: Annotated[str, "What to do; empty if ok"]


class DoctorDocument(TypedDict):
    """Result of doctor"""

    schema: Literal["skillwire/doctor/1"]
    checks: Annotated[list[DoctorCheck], "The checks"]
    counts: Annotated[dict[str, int], "Number of checks by verdict"]


class CodeObject(TypedDict):
    code: Annotated[str, "Code"]
    kind: Annotated[str, "error or lint rule"]
    group: Annotated[str, "Group in the documentation"]
    summary: Annotated[str, "Meaning"]
    cause: Annotated[str, "Usual cause"]
    fix: Annotated[str, "What to do"]
    retryable: Annotated[bool, "Whether a retry may help"]
    exit_code: Annotated[int | None, "Exit code of commands that fail with it; null without one"]
    documentation: Annotated[str, "Page and anchor of the documentation"]
    strict: Annotated[str | None, "Level in strict checks; null if not applied"]
    lenient: Annotated[str | None, "Level in lenient checks; null if not applied"]
    example: Annotated[str | None, "Example; null without one"]


class ExplainDocument(TypedDict):
    """Meaning of codes"""

    schema: Literal["skillwire/explain/1"]
    codes: Annotated[list[CodeObject], "The codes"]


ConfigValue = TypedDict(
    "ConfigValue",
    {
        "value": Annotated[Any, "Text, true or false, or a list of texts"],
        "from": Annotated[str, "Source of the value"],
    },
)
ConfigCredential = TypedDict(
    "ConfigCredential",
    {"origin": Annotated[str, "Origin it is sent to"], "from": Annotated[str, "Where it is stored"]},
)


class ConfigSetting(ConfigValue):
    setting: Annotated[str, "Key"]
    hides: Annotated[list[ConfigValue], "Values of lower precedence"]


class ConfigShowDocument(TypedDict):
    """Settings in force"""

    schema: Literal["skillwire/config-show/1"]
    settings: Annotated[list[ConfigSetting], "The settings"]
    credentials: Annotated[list[ConfigCredential], "Origins with a credential, without the secrets"]


class ConfigPathDocument(TypedDict):
    """Settings files"""

    schema: Literal["skillwire/config-path/1"]
    project: Annotated[str | None, "The project's file; null without one"]
    user: Annotated[str, "The user's file"]
    user_exists: Annotated[bool, "Whether the user's file exists"]


#: What ``Output.document`` takes.
Document = (
    ErrorDocument
    | FindDocument
    | ShowDocument
    | CatDocument
    | AddDocument
    | UpdateDocument
    | PlanDocument
    | ListDocument
    | RemoveDocument
    | OutdatedDocument
    | VerifyDocument
    | TrustDocument
    | WhichDocument
    | DoctorDocument
    | ExplainDocument
    | ConfigShowDocument
    | ConfigPathDocument
)
