"""JSON documents that commands print with ``--json`` about skills, installing, settings, errors and the local network.

A document is declared once, here or in :mod:`skillwire.cli.documents_run`. ``Output.document`` takes a ``Document`` and
``print_event`` an ``Event``, the unions of all types, so a missing, wrong or further field in a command fails the type
check. :mod:`skillwire.cli.explain` makes the published schemas from the same unions. The texts in ``Annotated``
describe the fields; a third argument has the values that a field takes. A named tuple is printed as an object of its
fields, and a pair of types is one object. ``Output.document`` adds ``findings`` to each. At run time a document is a
plain dictionary: apart from ``explain``, commands import the types for type checking only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, Never, NotRequired, TypedDict

from skillwire.adapters.checks import Severity
from skillwire.errors import Diagnostics
from skillwire.folder.differences import DiffLine
from skillwire.model.lan import FoundVia, Freshness, GoneReason, LanMember, LanStatus, SkillChange, Trust
from skillwire.model.ref import AnyArtifactType, RpcFacts, SharedFacts
from skillwire.model.skill import Finding
from skillwire.resolver.context import AnsweredBy
from skillwire.resolver.ladder import RungTrace
from skillwire.resolver.plan import ComparisonState, Decision, State


class DryRun(TypedDict):
    dry_run: Annotated[bool, "Whether nothing was changed because of --dry-run"]


class WithFindings(TypedDict):
    findings: Annotated[list[Finding], "Skipped or questionable items"]


class ErrorDocument(TypedDict):
    schema: Annotated[Literal["skillwire/error/1"], "Any command that fails"]
    error: Annotated[Diagnostics, "The error"]


class VersionObject(TypedDict):
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "sha256: and 64 hexadecimal digits; null if the origin publishes none"]


class RefObject(VersionObject):
    name: Annotated[str, "Name"]
    reference: Annotated[str, "Reference for commands"]
    origin: Annotated[
        str, "Publisher's location: a URL without the well-known part, an endpoint, or path: and a folder"
    ]
    description: Annotated[str, "What it does and when to use it"]
    found_via: Annotated[str, "Sources that listed it"]
    heard_at: Annotated[float, "Time when the source was read, or heard it, in seconds since the epoch"]
    freshness: Annotated[Freshness, "live, cached since heard_at, or stale (offline only)"]
    health: Annotated[LanStatus | None, "Health on the local network; null for other sources"]
    trust: Annotated[Trust | None, "Trust in its key on the local network; null for other sources"]
    shared: Annotated[SharedFacts | None, "Skill Sharing fields; null if not asked or not listed there"]
    rpc: Annotated[RpcFacts | None, "Skills Protocol fields; null if not found at an endpoint"]


class LanSkillObject(TypedDict):
    agent_id: Annotated[str, "Agent that offers it; empty if known only from other agents"]
    skill_id: Annotated[str, "ID in Skill Discovery"]
    skill_type: Annotated[str, "Type, such as tool-skill; empty if known only from other agents"]
    endpoint: Annotated[str, "HOST:PORT of its server"]
    capabilities: Annotated[list[str], "Capabilities"]
    scenes: Annotated[list[str], "Scenes it takes part in"]
    status: Annotated[LanStatus, "Health of the skill"]
    trust: Annotated[
        Trust,
        "Whether its key has a certificate chain to a configured root; not known for skills known from other agents; "
        "revoked ones are never used",
    ]
    found_via: Annotated[FoundVia, "Source of the record"]
    freshness: Annotated[Freshness, "live, cached, or stale if a network problem is suspected"]
    heard_at: Annotated[float, "Time of the last sign of life, in seconds since the epoch"]
    stale: Annotated[bool, "Whether a network problem is suspected instead of a skill failure"]


class StateObject(TypedDict):
    status: Annotated[str, "Status, as its origin names it: active, archived, deprecated, yanked, quarantined"]
    reason: Annotated[str, "Reason of the status; empty for none"]
    successor: Annotated[str, "Skill to use instead; empty for none"]


class HitFacts(TypedDict):
    state: NotRequired[Annotated[StateObject, "State of its version, if it is not active"]]
    lan: NotRequired[Annotated[LanSkillObject, "With --lan: local network fields"]]


class FindHit(RefObject, HitFacts):
    score: Annotated[float, "Higher is better"]


class FindDocument(TypedDict):
    schema: Annotated[Literal["skillwire/find/1"], "Search results, best first"]
    query: Annotated[str, "Search words"]
    total: Annotated[int, "Number of matching skills"]
    hits: Annotated[list[FindHit], "The best matches"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]


class FileObject(TypedDict):
    path: Annotated[str, "Path"]
    size: Annotated[int, "Bytes"]
    executable: Annotated[bool, "Whether it is executable"]


class ReleaseObject(VersionObject, StateObject):
    published_at: Annotated[str | None, "RFC 3339 in UTC; null if unknown"]
    published_by: Annotated[str, "Account; empty if unknown"]


class ShowDocument(TypedDict):
    schema: Annotated[Literal["skillwire/show/1"], "A skill"]
    skill: Annotated[RefObject, "The skill"]
    type: Annotated[AnyArtifactType, "Artifact type; none if only a descriptor exists"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]
    descriptor: NotRequired[Annotated[dict[str, object], "Its Skill Descriptor, SkillDescriptor of Skill Sharing"]]
    versions: NotRequired[Annotated[list[ReleaseObject], "Its versions, if its origin lists them"]]
    manifest: NotRequired[Annotated[dict[str, object], "At a Skills Protocol endpoint: content of skill.toml"]]
    frontmatter: NotRequired[
        Annotated[
            Mapping[str, object] | None, "At a Skills Protocol endpoint: frontmatter of SKILL.md; null if unknown"
        ]
    ]
    body: NotRequired[Annotated[str, "With --body: the instructions"]]
    files: NotRequired[Annotated[list[FileObject], "With --files: the files"]]


class CatDocument(TypedDict):
    schema: Annotated[Literal["skillwire/cat/1"], "A file of a skill"]
    reference: Annotated[str, "Reference as typed"]
    path: Annotated[str, "Path of the file"]
    size: Annotated[int, "Bytes"]
    encoding: Annotated[Literal["text", "base64"], "Encoding of content"]
    content: Annotated[str, "Content of the file"]


class FolderFields(TypedDict):
    folders: Annotated[list[str], "Skills folders that contain the files, relative to the root"]
    links: Annotated[list[str], "Skills folders that link to the first of them"]


class LockedObject(FolderFields, VersionObject):
    name: Annotated[str, "Name"]
    origin: Annotated[str, "Publisher's location"]
    first_seen: Annotated[str, "First installation of this digest, RFC 3339 in UTC"]
    agents: Annotated[list[str], "Agents it is installed for"]
    files: Annotated[int, "Number of files"]
    requires: Annotated[dict[str, str], "Requirements, and the installed skill that meets each"]


class ComparisonObject(TypedDict):
    name: Annotated[str, "Name"]
    state: Annotated[ComparisonState, "Result of the comparison"]
    installed: Annotated[VersionObject, "Installed version"]
    latest: Annotated[VersionObject | None, "Version at the origin; null if unknown"]
    error: Annotated[str | None, "Error code, such as YANKED; null if the origin was read and the version stands"]
    required_by: Annotated[list[str], "Installed skills that require another version than the latest"]
    more: NotRequired[
        Annotated[dict[str, list[str]] | None, "With outdated: what an update asks for more, by kind; null if unknown"]
    ]


class ReviewObject(VersionObject):
    name: Annotated[str, "Name"]
    installed: Annotated[VersionObject | None, "The version before; null for a skill that is new here"]
    reused: Annotated[bool, "Whether it has the version of the one before, and other bytes"]
    may: Annotated[dict[str, list[str]], "What it may do: values by kind, such as hosts, commands and packages"]
    more: Annotated[dict[str, list[str]], "What the version before does not ask for"]
    less: Annotated[dict[str, list[str]], "What only the version before asks for"]


class FileChangeObject(TypedDict):
    path: Annotated[str, "Path"]
    change: Annotated[Literal["added", "removed", "changed"], "What happened to the file"]
    reason: Annotated[str, "Why there are no lines; empty with lines"]
    lines: Annotated[tuple[DiffLine, ...], "Lines that differ, with three around them"]


class DiffDocument(ReviewObject):
    schema: Annotated[Literal["skillwire/diff/1"], "Differences between two versions of a skill"]
    files: Annotated[list[FileChangeObject], "Changed files by path"]


class ReportFields(TypedDict):
    root: Annotated[str, "Folder that paths are relative to"]
    installed: Annotated[list[LockedObject], "Installed skills"]
    updated: Annotated[list[str], "Installed skills that replaced an earlier version"]
    unchanged: Annotated[list[str], "Skills that were already installed"]
    failed: Annotated[dict[str, Diagnostics], "Errors by skill name"]
    reviews: Annotated[list[ReviewObject], "What the new and changed skills may do"]


class AddDocument(ReportFields):
    schema: Annotated[Literal["skillwire/add/1"], "Result of add"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order, for each reference"]


class UpdateDocument(ReportFields):
    schema: Annotated[Literal["skillwire/update/1"], "Result of update"]
    compared: Annotated[list[ComparisonObject], "Each skill compared with its origin"]


class PlanSkill(FolderFields):
    name: Annotated[str, "Name"]
    state: Annotated[State, "Planned action"]
    reason: Annotated[str, "Reason of a conflict; otherwise empty"]
    origin: Annotated[str, "Publisher's location"]
    version: Annotated[str | None, "Version; null if the index has none"]
    required_by: Annotated[str | None, "Chain of skills that require it; null if you named it"]


class PlanSources(TypedDict):
    compared: NotRequired[Annotated[list[ComparisonObject], "With update: each skill compared with its origin"]]
    rungs: NotRequired[Annotated[tuple[RungTrace, ...], "With add: sources tried for each reference, in order"]]


class PlanDocument(PlanSources):
    schema: Annotated[Literal["skillwire/plan/1"], "Plan of add or update, with --dry-run"]
    skills: Annotated[list[PlanSkill], "Planned skills"]
    unknown_origins: Annotated[list[str], "Origins without your consent"]
    consent: Annotated[bool, "Whether --yes would give that consent"]
    overwrite: Annotated[bool, "Whether --overwrite would replace existing files"]
    reviews: Annotated[list[ReviewObject], "What the new and changed skills may do, as far as they could be read"]


class ListDocument(TypedDict):
    schema: Annotated[Literal["skillwire/list/1"], "Installed skills"]
    root: Annotated[str, "Folder that paths are relative to"]
    skills: Annotated[list[LockedObject], "Skills by name"]


class RemoveDocument(DryRun):
    schema: Annotated[Literal["skillwire/remove/1"], "Result of remove"]
    skills: Annotated[list[LockedObject], "Removed skills"]
    changed: Annotated[list[str], "Those with locally changed files"]
    required_by: Annotated[dict[str, str], "Remaining skills that require one of them, and the requirement"]


class OutdatedDocument(TypedDict):
    schema: Annotated[Literal["skillwire/outdated/1"], "Installed skills compared with their origins"]
    skills: Annotated[list[ComparisonObject], "Comparisons by name"]


class VerifyDocument(TypedDict):
    schema: Annotated[
        Literal["skillwire/verify/1"], "Installed skills that match the lock; a deviation gives an error document"
    ]
    skills: Annotated[list[str], "Names"]
    deviations: Annotated[list[Never], "Always empty"]


class TrustedOrigin(TypedDict):
    origin: Annotated[str, "URL"]
    first_seen: Annotated[str, "First contact, RFC 3339 in UTC"]
    revoked: Annotated[bool, "Whether the consent was, or would be, withdrawn"]


class TrustDocument(DryRun):
    schema: Annotated[Literal["skillwire/trust/1"], "Trusted origins, or those revoked"]
    origins: Annotated[list[TrustedOrigin], "The origins"]


class LookupObject(TypedDict):
    url: Annotated[str, "Index URL that was requested"]
    answered_by: Annotated[AnsweredBy | None, "What responded; null without a response"]
    age_seconds: Annotated[float, "Age of the response"]
    fresh_for_seconds: Annotated[float, "Time until the response must be revalidated"]
    generation: Annotated[str | None, "Format generation of the index; null without one"]
    entries: Annotated[int, "Number of listed skills"]
    credential: Annotated[str | None, "Source of the credential sent; null without one"]
    address_policy: Annotated[str, "allowed, or the code of the refusal"]
    error: Annotated[Diagnostics | None, "The error; null if the index was read"]


class WhichSkill(RefObject):
    url: Annotated[str, "Artifact URL"]
    index: Annotated[str, "Index URL"]


class WhichTrust(TypedDict):
    origin: Annotated[str, "URL"]
    decision: Annotated[Decision, "Decision of add"]
    in_trusted_origins: Annotated[bool, "Whether the setting trusted_origins lists it"]
    known_since: Annotated[str | None, "First contact, RFC 3339 in UTC; null without one"]
    agreed: Annotated[bool, "Whether you have trusted it"]


class WhichInstalled(TypedDict):
    name: Annotated[str, "Name"]
    version: Annotated[str | None, "Version; null without one"]
    digest: Annotated[str | None, "Digest; null without one"]
    same_origin: Annotated[bool, "Whether it came from this origin"]
    current: Annotated[bool | None, "Whether it equals the origin's version; null if unknown"]
    intact: Annotated[bool, "Whether its files match the lock"]


class WhichDocument(TypedDict):
    schema: Annotated[Literal["skillwire/which/1"], "Resolution of a reference"]
    reference: Annotated[str, "Reference as typed"]
    error: Annotated[Diagnostics | None, "The error; null if the reference was resolved"]
    skills: Annotated[list[WhichSkill], "Resolved skills"]
    why: Annotated[str, "Why this source won"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]
    lookups: Annotated[list[LookupObject], "Searched locations, in order"]
    others: Annotated[list[RefObject], "Skills of that name in other sources"]
    other_lookups: Annotated[list[LookupObject], "Locations after the winning one"]
    trust: Annotated[WhichTrust | None, "Trust in the origin; null for a folder or an endpoint"]
    installed: Annotated[list[WhichInstalled], "Installed skills of that name"]


class DoctorCheck(TypedDict):
    section: Annotated[str, "Subject"]
    severity: Annotated[Severity, "Verdict"]
    what: Annotated[str, "The state found"]
    why: Annotated[str, "Why it matters; empty if ok"]
    fix: Annotated[str, "What to do; empty if ok"]


class DoctorDocument(TypedDict):
    schema: Annotated[Literal["skillwire/doctor/1"], "Result of doctor"]
    checks: Annotated[list[DoctorCheck], "The checks"]
    counts: Annotated[dict[str, int], "Number of checks by verdict"]


class CodeObject(NamedTuple):
    code: Annotated[str, "Code"]
    kind: Annotated[str, "error or lint rule"]
    group: Annotated[str, "Group in the documentation"]
    summary: Annotated[str, "Meaning"]
    cause: Annotated[str, "Usual cause"]
    fix: Annotated[str, "What to do"]
    retryable: Annotated[bool, "Whether a retry may help"]
    exit_code: Annotated[int | None, "Exit code of commands that fail with it; null without one"]
    documentation: Annotated[str | None, "Page of the documentation; null without SKILLWIRE_DOCS_URL"]
    strict: Annotated[str | None, "Level in strict checks; null if not applied"] = None
    lenient: Annotated[str | None, "Level in lenient checks; null if not applied"] = None
    example: Annotated[str | None, "Example; null without one"] = None


class ExplainDocument(TypedDict):
    schema: Annotated[Literal["skillwire/explain/1"], "Meaning of codes"]
    codes: Annotated[list[CodeObject], "The codes"]


ConfigValue = TypedDict(
    "ConfigValue",
    {
        "value": Annotated[object, "Text, true or false, or a list of texts"],
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
    schema: Annotated[Literal["skillwire/config-show/1"], "Settings in force"]
    settings: Annotated[list[ConfigSetting], "The settings"]
    credentials: Annotated[list[ConfigCredential], "Origins with a credential, without the secrets"]


class ConfigPathDocument(TypedDict):
    schema: Annotated[Literal["skillwire/config-path/1"], "Settings files"]
    project: Annotated[str | None, "The project's file; null without one"]
    user: Annotated[str, "The user's file"]
    user_exists: Annotated[bool, "Whether the user's file exists"]


class ConfigCheckDocument(TypedDict):
    schema: Annotated[Literal["skillwire/config-check/1"], "Check of a server's configuration; problems are findings"]
    file: Annotated[str, "The configuration file"]


class ServeSetting(ConfigValue):
    setting: Annotated[str, "Table and key"]


class ConfigServeDocument(TypedDict):
    schema: Annotated[Literal["skillwire/config-serve/1"], "Settings of a server, and their sources"]
    settings: Annotated[list[ServeSetting], "The settings"]


class SceneObject(TypedDict):
    scene: Annotated[str, "Name"]
    group_id: Annotated[str, "Group of its providers"]
    members: Annotated[tuple[LanMember, ...], "Providers, the PRIMARY first"]


class JoinedScene(SceneObject):
    skill_id: Annotated[str, "Skill of the connection"]
    version: Annotated[str, "Version of that skill"]
    capabilities: Annotated[list[str], "Capabilities of that skill"]
    connection_info: Annotated[
        dict[str, str | int],
        "Connection: the keys of SDP 4.3 and endpoint; apiKey and expiresAt if a key was issued, which goes into the "
        "header field authHeader. Paths are below basePath",
    ]
    no_key: Annotated[Finding | None, "Why the provider issued no key; null if there is one, or none is issued"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]


class SceneDocument(JoinedScene):
    schema: Annotated[Literal["skillwire/scene/1"], "A joined scene"]


class SceneListDocument(TypedDict):
    schema: Annotated[Literal["skillwire/scene-list/1"], "Scenes of the local network"]
    scenes: Annotated[list[SceneObject], "Scenes by name"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried, in order"]


class SceneRequestDocument(ReportFields):
    schema: Annotated[
        Literal["skillwire/scene-request/1"], "Installation of scene request for a scene without a provider"
    ]
    scene: Annotated[str, "Name"]
    skill: Annotated[str, "Chosen skill"]
    found_by: Annotated[Literal["scene", "words"], "Whether the skill declares the scene, or only matches its words"]
    provided: Annotated[bool, "Whether it is served now, with --provide"]
    rungs: Annotated[tuple[RungTrace, ...], "Sources that were tried for the scene, in order"]


class ListedLanSkill(LanSkillObject):
    version: Annotated[str, "Version"]


class ShareDocument(TypedDict):
    schema: Annotated[Literal["skillwire/share/1"], "A skill that is shared until the command ends"]
    name: Annotated[str, "Its name"]
    url: Annotated[str, "The server"]
    digest: Annotated[str, "The artifact's digest"]
    words: Annotated[str, "Six words of the digest, separated by spaces"]
    add: Annotated[str, "Command that installs it"]


class McpInstallDocument(TypedDict):
    schema: Annotated[Literal["skillwire/mcp-install/1"], "A changed configuration of an MCP client"]
    client: Annotated[str, "The client"]
    name: Annotated[str, "Name of the server in it"]
    file: Annotated[str, "The configuration file"]
    state: Annotated[Literal["installed", "replaced", "removed", "unchanged"], "What was done, or would be done"]
    diff: Annotated[list[str], "The changed lines, as a unified diff"]
    dry_run: Annotated[bool, "Whether nothing was written"]


class LanTrustWords(TypedDict):
    agent_id: Annotated[str, "The agent"]
    words: Annotated[str, "Six words for its key, separated by spaces"]


class LanTrustDocument(LanTrustWords):
    schema: Annotated[Literal["skillwire/lan-trust/1"], "An agent's key, as lan trust shows it"]
    trusted: Annotated[bool, "Whether this machine trusts the key"]
    others: Annotated[list[LanTrustWords], "Without AGENT, further agents of this machine"]


class LanEvent(TypedDict):
    schema: Annotated[Literal["skillwire/lan/1"], "A line of lan"]
    at: Annotated[float, "Time in seconds since the epoch"]


class LanSnapshotEvent(LanEvent):
    event: Annotated[Literal["snapshot"], "The current state: the first line, and again after missed"]
    agent_id: Annotated[str, "This machine's agent"]
    network_suspected: Annotated[bool, "Whether so many agents fell silent that a network problem is suspected"]
    notes: Annotated[list[str], "Why others may not be heard: another profile or group key, or no network interface"]
    skills: Annotated[list[ListedLanSkill], "Skills by agent and name"]
    scenes: Annotated[list[SceneObject], "Scenes by name"]


class LanSkillEvent(LanEvent):
    event: Annotated[
        SkillChange,
        "A skill appeared, was updated, changed health, fell silent, fell silent with many others (stale), said "
        "goodbye (left), or was removed (evicted)",
    ]
    skill: Annotated[ListedLanSkill, "The skill, in its current or last state"]
    reason: NotRequired[
        Annotated[GoneReason, "What it said goodbye with; or it was silent, revoked, or replaced (crowded)"]
    ]


class LanSceneEvent(LanEvent):
    event: Annotated[Literal["scene"], "A scene has another PRIMARY or other members"]
    scene: Annotated[SceneObject, "The scene, in its current state"]


class LanMissedEvent(LanEvent):
    event: Annotated[Literal["missed"], "Some changes were missed; a snapshot follows"]


class SceneJoinedEvent(JoinedScene):
    schema: Literal["skillwire/scene-event/1"]
    event: Annotated[Literal["joined"], "The scene was joined"]


class SceneChangeEvent(TypedDict):
    schema: Literal["skillwire/scene-event/1"]
    event: Annotated[
        Literal[SkillChange, "scene", "missed"],
        "A change of the scene or of a skill in it",
    ]
    at: Annotated[float, "Time in seconds since the epoch"]
    skill: Annotated[LanSkillObject | None, "The skill, in its current or last state; null for a scene"]
    scene: Annotated[SceneObject | None, "The scene, in its current state; null for a skill"]
    reason: Annotated[Literal["", GoneReason], "Reason of left and evicted; otherwise empty"]


#: A line of a stream.
Event = (
    LanSnapshotEvent | LanSkillEvent | LanSceneEvent | LanMissedEvent | SceneJoinedEvent | SceneChangeEvent
)  # fmt: skip
Document = (
    ErrorDocument | FindDocument | ShowDocument | CatDocument | DiffDocument | AddDocument | UpdateDocument |
    PlanDocument | ListDocument | RemoveDocument | OutdatedDocument | VerifyDocument | TrustDocument | WhichDocument |
    DoctorDocument | ExplainDocument | ConfigShowDocument | ConfigPathDocument | ConfigCheckDocument |
    ConfigServeDocument | SceneDocument | SceneListDocument | SceneRequestDocument | ShareDocument |
    McpInstallDocument | LanTrustDocument
)  # fmt: skip
