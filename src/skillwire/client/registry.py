"""A registry as publishers and its operators use it: each use case as a flow over the registry's own API.

The server's answers and errors are hostile text: bounded, without hidden characters. See
``docs/reference/registry-api.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict, Unpack
from urllib.parse import urlencode

from skillwire import limits
from skillwire.client.runner import AsyncRunner, SyncRunner, awaited, documented_by
from skillwire.codes import CODES
from skillwire.errors import (
    UNREACHED,
    ConflictError,
    FetchError,
    NotFoundError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.folder.load import name_places, refused_folder
from skillwire.folder.manifest import dependency_levels
from skillwire.folder.pack import pack
from skillwire.folder.publish import RefusedFolder, prepare
from skillwire.folder.rules import VERSION_RULES
from skillwire.model.digest import Digest
from skillwire.model.package import UPLOAD, VersionReference, parse_requirement, read_reference, required_packages
from skillwire.model.skill import Finding
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.judge import JUDGES
from skillwire.registry.accounts import namespaces_of
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sleep, run_all, work
from skillwire.wire.fetch import fetch
from skillwire.wire.pacing import retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from skillwire.client.session import ClientSession
    from skillwire.resolver.context import ResolveContext

_API: Final = "/api/registry"
_OK: Final = 300
_ABSENT: Final = 404
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
#: How often, and at most how many seconds each time, a request waits as the registry asks: a large batch does.
_WAITS: Final = 20
_LONGEST_WAIT: Final = 60.0
_UPLOAD_SECONDS: Final = 300.0
_FOLLOW_SECONDS: Final = 2  # until every server answers with a change, which its response waits for
#: A larger archive is uploaded in pieces of this size.
_PIECE_BYTES: Final = 4 * limits.MIB
_SHOWN: Final = 20
_TEXT: Final = 500
#: What a refusal with a code of ours is raised as, by the exit code of that code.
_CLASSES: Final[dict[int | None, type[SkillwireError]]] = {
    one.exit_code: one
    for one in (ValidationError, UsageError, NotFoundError, TrustError, FetchError, ConflictError, StorageError)
}


class PublishOptions(TypedDict, total=False):
    """How a folder is published; the namespace is by default that of ``skill.toml``, of the token or the account."""

    namespace: str
    version: str
    dry_run: bool
    allow_secrets: bool


class PublishedFile(NamedTuple):
    """A file of a publication."""

    path: Annotated[str, "Path in the skill"]
    size: Annotated[int, "Bytes"]
    executable: Annotated[bool, "Whether its mode is 755, and not 644"]


class PublishedPackage(NamedTuple):
    """A publication: ``created``, ``repeated`` when it was there, or ``checked`` for a dry run of another."""

    package: Annotated[str, "NAMESPACE/NAME"]
    version: Annotated[str, "Version"]
    status: Annotated[str, "repeated: it was there; checked: with --dry-run", Literal["created", "repeated", "checked"]]
    digest: Annotated[str, "Digest of the stored artifact"]
    size: Annotated[int, "Bytes of the stored artifact"]
    files: Annotated[tuple[PublishedFile, ...], "Its files"]
    access: Annotated[str, "public, restricted or private"]


class _Unmet(NamedTuple):
    """The warning that nothing in the registry meets a requirement of a skill in ``namespace``."""

    finding: Finding
    namespace: str
    requires: list[str]

    def is_met_by(self, batch: Sequence[PublishedPackage]) -> bool:
        """Whether a publication of the same batch meets it."""
        names = {str(one) for one in required_packages(self.requires, self.namespace)}
        versions = [parse_requirement(text).versions for text in self.requires]
        return any(one.package in names and all(one.version in some for some in versions) for one in batch)


def _default_namespace(caller: Mapping[str, Any]) -> str:
    """Return the only namespace that a token is limited to, under its present name, or else the account's own."""
    scopes, roles = caller.get("scopes"), caller.get("namespaces")
    limited = namespaces_of([*map(str, scopes if isinstance(scopes, list) else ())])
    limited = [one for one in limited if isinstance(roles, dict) and one in roles] or limited
    return limited[0] if len(limited) == 1 else str(caller.get("account", ""))


def _read_published(answer: Mapping[str, Any], source: str) -> PublishedPackage:
    try:
        files = tuple(
            PublishedFile(neutralise(str(row["path"])), int(row["size"]), bool(row.get("executable")))
            for row in answer["files"]
        )
        texts = {key: neutralise(str(answer[key])) for key in ("package", "version", "status", "digest", "access")}
        return PublishedPackage(**texts, size=int(answer["size"]), files=files)
    except (KeyError, TypeError, ValueError) as error:
        message = "the answer to a publication lacks package, version, status, digest, size, access or files"
        raise ValidationError("REGISTRY_ANSWER", message, place=SourceLocation(source)) from error


def _read_offset(upload: Mapping[str, Any], source: str, *, least: int = 0) -> int:
    offset = upload.get("offset")
    if not isinstance(offset, int) or offset < least or not UPLOAD.fullmatch(str(upload.get("id"))):
        raise ValidationError(
            "REGISTRY_ANSWER", "the answer is no upload, or lacks what was sent", place=SourceLocation(source)
        )
    return offset


class RegistryFlows:
    """The registry at ``url``, as the user of ``context`` sees it. Flows raise what the registry answers, as ours."""

    def __init__(self, url: str, context: ResolveContext) -> None:
        self.url = str(parse_url(url)).rstrip("/")
        self._context = context
        self._has_answered = False

    def publish_folder(
        self,
        folder: Path,
        *,
        namespace: str = "",
        version: str = "",
        dry_run: bool = False,
        allow_secrets: bool = False,
        waits: bool = True,
        unmet: list[_Unmet] | None = None,
    ) -> Flow[PublishedPackage]:
        """Publish the skill in ``folder``, in the namespace of its ``skill.toml``, of the token or of the account.

        The requirements that nothing in the registry meets are added to ``unmet``, or reported without it.
        Raises ValidationError (``SKILL_INVALID``), TrustError (``SECRET_PUBLISHED``), and what the registry answers.
        """
        prepared = yield from work(lambda: prepare(folder, namespace or "local", judges=JUDGES))
        at = SourceLocation(str(folder))
        if isinstance(prepared, RefusedFolder):
            raise refused_folder(prepared.findings, str(folder))
        secrets = [finding for finding in prepared.findings if finding.code == "SECRET"]
        if secrets and not allow_secrets:
            several = f"{len(secrets)} findings: {name_places(secrets)}"
            message, place = (secrets[0].message, secrets[0].place) if len(secrets) == 1 else (several, at)
            raise TrustError("SECRET_PUBLISHED", message, place=place, details={"findings": secrets})
        stated = prepared.folder.manifest.version or prepared.folder.skill_md.metadata.get("version", version)
        if version and stated != version:
            message = (
                f"published as {version}, but its files say {neutralise(stated)[:_TEXT]}, and so does each installation"
            )
            self._context.report(Finding("VERSION_DIFFERS", "warning", message, at, CODES["VERSION_DIFFERS"].fix))
        warnings = [
            finding
            for finding in prepared.findings
            if finding.level == "warning" and not (version and finding.code in VERSION_RULES)
        ]
        if dry_run:
            self._report(warnings)
        wanted = namespace or prepared.folder.manifest.namespace or ""
        if not wanted:
            wanted = _default_namespace((yield from self._ask_again("GET", "/whoami")))
        is_archive = prepared.skill.artifact.artifact_type == "archive"
        archive = prepared.artifact if is_archive else (yield from work(lambda: pack(prepared.files).content))
        answer = yield from self.publish(wanted, archive, version=version, dry_run=dry_run, waits=waits)
        if not dry_run:
            self._report(warnings)
        for row in answer["findings"] if isinstance(answer.get("findings"), list) else ():
            code = row.get("code") if isinstance(row, dict) else None
            if code in {"DEPENDENCY_MISSING", "YANKED"}:  # the others are of the folder
                message, fix = (neutralise(str(row.get(key, "")))[:_TEXT] for key in ("message", "fix"))
                place = SourceLocation(str(folder / "skill.toml"))
                finding = Finding(code, "warning", message, place, fix)
                if unmet is None or code == "YANKED":
                    self._context.report(finding)
                else:
                    requires = [one for one in prepared.skill.requires if message.endswith(f" {one}")]
                    unmet.append(_Unmet(finding, wanted, requires))
        return _read_published(answer, self.url)

    def _report(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._context.report(finding)

    def publish_folders(
        self,
        folders: Sequence[Path],
        on_done: Callable[[], object],
        published: list[PublishedPackage] | None = None,
        **options: Unpack[PublishOptions],
    ) -> Flow[list[PublishedPackage | SkillwireError]]:
        """Publish the skill in each of ``folders``, several at a time, what others require before these.

        Returns a publication or an error for each, in order. What is published is added to ``published``, which may
        hold earlier parts of the batch. Only the last answer waits until it is served. When the registry is not
        reached any more, the rest gets that same error.
        """
        batch: list[PublishedPackage] = [] if published is None else published
        unmet: list[_Unmet] = []
        gone: list[SkillwireError] = []

        def publish_one(folder: Path, *, waits: bool) -> Flow[PublishedPackage]:
            if gone:
                raise gone[0]
            try:
                done = yield from self.publish_folder(folder, waits=waits, unmet=unmet, **options)
            except FetchError as error:
                if error.code not in UNREACHED:
                    raise
                gone.append(error)
                raise gone[0] from None
            batch.append(done)
            return done

        results: dict[Path, PublishedPackage | SkillwireError] = {}
        levels = yield from work(lambda: dependency_levels(folders))
        for level in levels:
            flows = [publish_one(one, waits=one is levels[-1][-1]) for one in level]
            results.update(zip(level, (yield from run_all(flows, on_done)), strict=True))
        self._report(one.finding for one in unmet if not one.is_met_by(batch))
        return [results[one] for one in folders]

    def _ask_again(self, *request: Any, **options: Any) -> Flow[dict[str, Any]]:
        """Send a request as :meth:`ask`, again when its connection fails, if the registry answered before."""
        failures = 0
        while True:
            try:
                return (yield from self.ask(*request, **options))
            except FetchError as error:
                failures += 1
                may_pass = error.code == "CONNECTION_LOST" or (error.code in UNREACHED and self._has_answered)
                if not may_pass or failures >= limits.DOWNLOAD_TRIES:
                    raise
            yield Sleep(2.0**failures)

    def publish(
        self, namespace: str, archive: bytes, *, version: str = "", dry_run: bool = False, waits: bool = True
    ) -> Flow[dict[str, Any]]:
        """Publish the skill in ``archive``; the answer names package, version, digest, files and findings.

        A large archive is uploaded first, in pieces, and goes on where it broke off, also in an earlier run.
        """
        upload = (yield from self._upload(archive)) if len(archive) > _PIECE_BYTES else ""
        wanted = (("version", version), ("dry_run", "1" * dry_run), ("upload", upload))
        query = urlencode({key: value for key, value in wanted if value})
        path = f"/namespaces/{namespace}/packages{'?' * bool(query)}{query}"
        return (yield from self._ask_again("POST", path, content=b"" if upload else archive, waits=waits))

    def _upload(self, archive: bytes) -> Flow[str]:
        """Send an archive in pieces, again where a connection broke; return the ID of the upload."""
        asked = {"size": len(archive), "digest": str(Digest.of(archive))}
        failures = farthest = 0
        while True:
            try:
                upload = yield from self.ask("POST", "/uploads", asked)
                offset = _read_offset(upload, self.url)
                while offset < len(archive):
                    piece = archive[offset : offset + _PIECE_BYTES]
                    upload = yield from self.ask("PATCH", f"/uploads/{upload['id']}", content=piece, offset=offset)
                    offset = _read_offset(upload, self.url, least=offset + len(piece))
                    if offset > farthest:  # what was there before is no progress
                        failures, farthest = 0, offset
                return str(upload["id"])
            except (FetchError, ConflictError, StorageError) as error:
                failures += 1
                if failures >= limits.DOWNLOAD_TRIES or error.code == "UPLOADS_FULL":
                    raise
                yield Sleep(2.0**failures)

    def set_state(
        self, reference: VersionReference, status: str, *, reason: str = "", successor: str = ""
    ) -> Flow[dict[str, Any]]:
        """Set the state of a version, or of a package."""
        wanted = {"status": status, "reason": reason, "successor": successor}
        return self.ask("PATCH", reference.path, {key: value for key, value in wanted.items() if value})

    def all(self, path: str, key: str, most: int) -> Flow[list[Any]]:
        """Return the rows ``key`` of every page of a list, ``most`` at most."""
        rows: list[Any] = []
        after: object = None
        while len(rows) < most:
            mark = "&" if "?" in path else "?"
            page = yield from self.ask("GET", path if after is None else f"{path}{mark}{urlencode({'after': after})}")
            found = page.get(key)
            rows += [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
            after = page.get("next")
            if after is None or not found:
                break
        return rows[:most]

    def ask(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        content: bytes | None = None,
        offset: int | None = None,
        waits: bool = True,
    ) -> Flow[dict[str, Any]]:
        """Send one request of the API; return the document that is answered, empty for none."""
        url = f"{self.url}{path if path.startswith('/api/') else _API + path}"
        headers = {"Accept": "application/json"}
        if offset is not None:
            headers["Upload-Offset"] = str(offset)
        if method != "GET" and waits and offset is None:
            headers["Prefer"] = f"wait={_FOLLOW_SECONDS}"
        body = content
        if document is not None:
            body = json.dumps(document).encode()
            headers["Content-Type"] = "application/json"
        elif content is not None:
            headers["Content-Type"] = "application/gzip"
        if credential := self._context.credential_for(url):
            headers["Authorization"] = credential
        seconds = limits.HTTP_REQUEST_SECONDS if content is None else _UPLOAD_SECONDS
        request = HttpRequest(url, method, headers, body, max_bytes=limits.CALL_ANSWER_BYTES, timeout=seconds)
        for _ in range(_WAITS):
            response = yield from fetch(request)
            self._has_answered = True
            is_busy = response.status == _TOO_MANY or (response.status == _UNAVAILABLE and content is not None)
            wait = retry_after(response.headers) if is_busy else None
            if wait is None or wait > _LONGEST_WAIT:
                break
            yield Sleep(max(1.0, wait))
        if response.status >= _OK:
            raise self._refusal(response)
        found = load_json(response.body, max_bytes=limits.CALL_ANSWER_BYTES) if response.body else {}
        if not isinstance(found, dict):
            raise ValidationError("REGISTRY_ANSWER", "it is no JSON object", place=SourceLocation(url))
        return found

    def _refusal(self, response: HttpResponse) -> SkillwireError:
        """Return the error that the registry answered, with its findings."""
        place = SourceLocation(response.url)
        message = server_message(response.body) or f"status {response.status} came"
        try:
            document: Any = load_json(response.body, max_bytes=limits.CALL_ANSWER_BYTES)
            error = document["error"]
            code, details = str(error["code"]), error.get("details")
        except (SkillwireError, KeyError, TypeError, AttributeError):  # a proxy's page, or another server
            code, details = "", None
        if code == "NOT_FOUND" and response.url.startswith(f"{self.url}{_API}"):
            return ValidationError("REGISTRY_ANSWER", f"{self.url} has no registry", place=place)
        if code not in CODES:
            advice = "Check the address: a registry is started with skillwire serve --registry."
            return FetchError("HTTP_STATUS", message, place=place, fix=advice if response.status == _ABSENT else None)
        findings = list(_findings(details)) if isinstance(details, dict) else []
        fix = details.get("fix") if isinstance(details, dict) else None
        kind = _CLASSES.get(CODES[code].exit_code, FetchError)
        shown = neutralise(fix)[:500] if isinstance(fix, str) else None
        return kind(code, message, place=place, fix=shown, details={"findings": findings} if findings else None)


def _findings(details: Mapping[str, Any]) -> Iterator[str]:
    rows = details.get("findings")
    for row in rows[:_SHOWN] if isinstance(rows, list) else ():
        if isinstance(row, dict):
            code, message, place = (str(row.get(key, "")) for key in ("code", "message", "place"))
            yield neutralise(f"{code}: {message}{place and f' ({place})'}")[:_TEXT]


class RemoteRegistry:
    """A registry, for publishers and operators: blocking. Made by :meth:`skillwire.Client.registry`."""

    def __init__(self, url: str, session: ClientSession, runner: SyncRunner) -> None:
        self._flows = RegistryFlows(url, session.context)
        self._runner = runner

    def publish(self, folder: Path | str, **options: Unpack[PublishOptions]) -> PublishedPackage:
        """Publish the skill in ``folder``, by default in the namespace of ``skill.toml``, token or account.

        A version that is there with the same bytes is ``repeated``, so an interrupted batch may be sent again.

        Raises:
            ValidationError: ``SKILL_INVALID``, with every finding.
            ConflictError: ``VERSION_EXISTS``, ``PACKAGE_CLOSED``.
            TrustError: ``SECRET_PUBLISHED``, ``PERMISSION_DENIED``, ``AUTH_REQUIRED``. FetchError.
        """
        return self._runner.run(self._flows.publish_folder(Path(folder), **options))

    def publish_all(
        self,
        folders: Sequence[Path],
        on_done: Callable[[], object] = lambda: None,
        published: list[PublishedPackage] | None = None,
        **options: Unpack[PublishOptions],
    ) -> list[PublishedPackage | SkillwireError]:
        """Publish the skill in each of ``folders`` as :meth:`publish` does, several at a time, in order of requirement.

        Returns a publication or its error for each, in order; ``on_done`` is called after each. Publications are also
        added to ``published``, which may hold those of an earlier part of the batch.
        """
        return self._runner.run(self._flows.publish_folders(folders, on_done, published, **options))

    def set_state(self, reference: str, status: str, *, reason: str = "", successor: str = "") -> dict[str, Any]:
        """Set the status of ``namespace/name`` or of ``namespace/name@version``: active, yanked, deprecated, archived.

        Raises:
            UsageError: ``REFERENCE``, ``REASON_FORM``. TrustError: ``PERMISSION_DENIED``. NotFoundError. FetchError.
        """
        flow = self._flows.set_state(read_reference(reference), status, reason=reason, successor=successor)
        return self._runner.run(flow)

    def request(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request of the registry's API, such as ``GET /whoami``; return the document that is answered.

        A path that begins with ``/api/`` is one of the server.

        Raises:
            SkillwireError: what the registry answers. FetchError: it is not reached.
        """
        return self._runner.run(self._flows.ask(method, path, document))

    def rows(self, path: str, key: str, *, most: int = 10_000) -> list[dict[str, Any]]:
        """Return the rows ``key`` of every page of a list of the API, such as ``/audit`` and ``entries``.

        Raises:
            SkillwireError: as of :meth:`request`.
        """
        return self._runner.run(self._flows.all(path, key, most))


@documented_by(RemoteRegistry)
class AsyncRemoteRegistry:
    """The same as :class:`RemoteRegistry`, awaited. Made by :meth:`skillwire.AsyncClient.registry`."""

    def __init__(self, url: str, session: ClientSession, runner: AsyncRunner) -> None:
        self._flows = RegistryFlows(url, session.context)
        self._runner = runner

    publish = awaited(RemoteRegistry.publish)
    publish_all = awaited(RemoteRegistry.publish_all)
    set_state = awaited(RemoteRegistry.set_state)
    request = awaited(RemoteRegistry.request)
    rows = awaited(RemoteRegistry.rows)
