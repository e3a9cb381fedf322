"""``skillwire grant``: which skills may run on this machine.

A grant is for one artifact with the permissions that it requests. ``add`` prints the requests before it asks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from skillwire.adapters.executors.secrets import Secrets
from skillwire.cli.options import (
    GroupWithDefaultList,
    can_ask,
    chosen_stores,
    confirm,
    dry_run_option,
    login_name,
    plural,
    run_async,
    store_option,
    utc_time,
)
from skillwire.cli.output import Output, Part, bold, dim, nowrap, output_options, success, warning
from skillwire.errors import (
    NotFoundError,
    SourceLocation,
    TrustError,
    UsageError,
    ValidationError,
    first_of,
    in_seconds,
)
from skillwire.executions.grants import GrantChanges, Grants, granted_action, needs_grant
from skillwire.folder.files import find_folders
from skillwire.folder.publish import RefusedFolder, prepare
from skillwire.model.package import PackageName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.cli.documents_run import GrantChangesObject, GrantObject, GrantRequestObject, HealthCheckObject
    from skillwire.model.execution import Grant
    from skillwire.model.package import PackageVersion
    from skillwire.model.skill import Action, Skill


#: Findings about scripts that matter to the person who lets them run.
_PRINTED: Final = frozenset({"PIPE_TO_SHELL", "NETWORK_UNDECLARED", "HIDDEN_CHARACTERS", "HIDDEN_IN_FILE"})
_SHORT: Final = len("sha256:") + 12  # as much of a digest as people compare
_QUESTION: Final = "Allow {} to run here with these permissions?"
_NAMED: Final = 8  # more changed files than this are counted, not named


class _Request(NamedTuple):
    """A skill that needs a grant, its changes since the last grant, and whether this version is granted already."""

    skill: Skill
    place: str  # its folder, or its package
    action: Action
    changes: GrantChanges | None
    is_granted: bool

    @property
    def name(self) -> str:
        return self.skill.name


def _open_grants() -> Grants | None:
    """Return the stored grants, without creating a database; None if there is none."""
    stores = chosen_stores()
    return stores.grants() if stores.exists else None


@click.group(cls=GroupWithDefaultList)
def command() -> None:
    """List, add and revoke grants: permissions for skills to run on this machine. Without a command it lists.

    A grant is for one artifact with the permissions that it requests.
    """


@command.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
@click.option("--all", "take_all", is_flag=True, help="Grant every skill below FOLDER that runs code or calls an API.")
@click.option("-y", "--yes", is_flag=True, help="Grant every named skill without asking.")
@click.option("--dry-run", is_flag=True, help="Print the requested permissions, and change nothing.")
@store_option
@output_options
def add(*, output: Output, folders: tuple[str, ...], take_all: bool, yes: bool, dry_run: bool) -> None:
    """Allow the skill in each FOLDER to run on this machine with the permissions it requests.

    A server runs nothing without a grant. A grant is for these files and permissions: any change in the folder needs a
    new one. For a package that this machine's registry stores, give NAMESPACE/NAME; its latest version is granted.
    Grants are stored in the state directory, so run this as the user who runs the server.
    """
    packages = [one for one in folders if not Path(one).exists()]
    found = _skill_folders([Path(one) for one in folders if one not in packages], take_all=take_all)
    skills = [*_folder_skills(list(found)), *map(_package_skill, packages)]
    requests = list(_requests(skills, take_all=take_all))
    for request in requests:
        if dry_run or not request.is_granted:
            _print_request(output, request, output.line if dry_run else output.note)
    if not requests:
        output.note("these skills run nothing, so none needs a grant")
    pending = [request for request in requests if not request.is_granted]
    if dry_run:
        _print_document(output, requests, (), dry_run=True)
        return
    if pending and not yes and not can_ask(output):
        raise _refusal(pending, "there is no terminal to ask on")
    agreed = [request for request in pending if yes or confirm(_QUESTION.format(request.name))]
    _store(agreed)
    declined = [request for request in pending if request not in agreed]
    if not declined:
        _print_document(output, requests, agreed, dry_run=False)
    for request in requests:
        if request not in declined:
            verb = success("granted ") if request in agreed else "granted before "
            output.line(verb, bold(request.name), f" {request.skill.version}")
    if declined:
        raise _refusal(declined, "you declined")


def _store(agreed: Sequence[_Request]) -> None:
    for request in agreed:
        run_async(chosen_stores().grants().agree(request.skill, login_name()))


def _skill_folders(folders: Sequence[Path], *, take_all: bool) -> Iterator[Path]:
    for folder in dict.fromkeys(path.parent if path.name == "SKILL.md" else path for path in folders):
        found = find_folders(folder)
        if not found:
            message = "there is no SKILL.md in this folder or below"
            raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(str(folder)))
        if found != [folder] and not take_all:
            fix = f"Name one, such as {found[0]}, or give --all."
            raise UsageError("USAGE", f"{folder} holds {len(found)} skills, but is not a skill itself", fix=fix)
        yield from found


def _folder_skills(folders: Sequence[Path]) -> Iterator[tuple[Skill, str]]:
    from skillwire.protocols.skill_sharing.judge import JUDGES  # noqa: PLC0415  # --help does without

    for folder in folders:
        prepared = prepare(folder.absolute(), "local", judges=JUDGES)
        if isinstance(prepared, RefusedFolder):
            none = f"None of the {len(folders)} was granted. " if len(folders) > 1 else ""
            fix = f"{none}See the errors with skillwire check {folder}."
            raise ValidationError("SKILLS_BROKEN", "it cannot be published", place=SourceLocation(str(folder)), fix=fix)
        yield prepared.skill, str(prepared.path)


def _package_skill(text: str) -> tuple[Skill, str]:
    """Return the latest version of a package of this machine's registry. Raises NotFoundError (``SKILL_NOT_FOUND``)."""

    async def find() -> PackageVersion | None:
        package = await stores.packages.package(PackageName(*text.split("/")))
        return await stores.packages.version(package.name, package.latest) if package else None

    stores = chosen_stores()
    found = run_async(find()) if text.count("/") == 1 and stores.exists else None
    if found is None:
        message = "there is no such folder, and no package NAMESPACE/NAME in the registry of this machine"
        raise NotFoundError("SKILL_NOT_FOUND", message, place=SourceLocation(text))
    return found.skill, text


def _requests(skills: Sequence[tuple[Skill, str]], *, take_all: bool) -> Iterator[_Request]:
    """Yield the request of each skill; with ``take_all``, skills that need no grant are skipped."""
    grants = _open_grants()
    for skill, place in skills:
        if take_all and not needs_grant(skill):
            continue
        try:
            action = granted_action(skill)
        except UsageError as error:
            if len(skills) > 1:
                error.fix = f"None of the {len(skills)} was granted. Leave {skill.name} out, or give --all."
            raise
        changes = run_async(grants.changes(skill)) if grants else None
        yield _Request(skill, place, action, changes, grants is not None and run_async(grants.allows(skill)))


def _refusal(requests: Sequence[_Request], why: str) -> TrustError:
    names = ", ".join(request.name for request in requests)
    return TrustError("GRANT_NOT_AGREED", f"{names}: {why}", details={"skills": [row.name for row in requests]})


def _print_request(output: Output, request: _Request, say: Callable[..., None]) -> None:
    skill = request.skill
    say(bold(skill.name), f" {skill.version}", dim(f"  {skill.artifact.digest[:_SHORT]}"))
    for label, parts in _rows(request):
        say(dim(f"  {label:<9}"), *parts)
    for finding in skill.findings:
        if finding.code in _PRINTED:
            output.finding(finding)


def _rows(request: _Request) -> Iterator[tuple[str, list[Part]]]:
    skill, action, changes = request.skill, request.action, request.changes
    permissions, health = action.permissions, action.health
    if action.executor == "python":
        yield "runs", [f"{action.entrypoint}, {action.export}(args)"]
    else:
        headers = ", ".join(action.settings.get("headers", {}))
        call = f"{action.settings.get('method', 'POST')} {action.settings.get('url', '')}"
        yield "calls", [call, *([f", with {headers}"] if headers else [])]
    if health is not None:
        what = f"GET {health.url}" if health.url else f"{health.entrypoint}, {health.export}(args)"
        yield "checks", [f"{what}, every {in_seconds(health.interval)} while it is announced"]
    for label, names, new in (
        ("network", permissions.network, changes.network if changes else ()),
        ("secrets", permissions.secrets, changes.secrets if changes else ()),
    ):
        marked: list[Part] = []
        for name in names:
            marked += [name, *([warning(" (new)")] if name in new else []), ", "]
        if names:
            yield label, marked[:-1]
    yield "files", [f"{plural(len(skill.files), 'file')}, {sum(file.size for file in skill.files):,} bytes"]
    # A server may have secrets that this environment lacks.
    if unset := Secrets(os.environ).find(permissions.secrets)[1]:
        yield "needs", [warning(f"secrets {', '.join(unset)}: not set in this environment")]
    if not permissions.network and not permissions.secrets:
        yield "asks for", ["no network and no secrets"]
    if changes is not None and not request.is_granted:
        since = changes.since
        kinds = [("new", changes.new), ("changed", changes.changed), ("gone", changes.gone)]
        texts = [f"{word} {first_of(paths, _NAMED)}" for word, paths in kinds if paths]
        texts += ["asks for more"] if changes.network or changes.secrets else []
        who = nowrap(f"{since.by}, {utc_time(since.at)[:10]}")
        yield "since", [f"{since.version}, granted by ", who, ": ", warning("; ".join(texts) or "no file changed")]


def _print_document(output: Output, requests: Sequence[_Request], agreed: Sequence[_Request], *, dry_run: bool) -> None:
    rows = [_request_object(request, is_granted=request.is_granted or request in agreed) for request in requests]
    output.document({"schema": "skillwire/grant-add/1", "dry_run": dry_run, "skills": rows})


def _request_object(request: _Request, *, is_granted: bool) -> GrantRequestObject:
    skill, action, changes = request.skill, request.action, request.changes
    health: HealthCheckObject | None = action.health and {
        "entrypoint": action.health.entrypoint or None,
        "export": action.health.export or None,
        "url": action.health.url or None,
        "interval": action.health.interval,
    }
    return {
        "name": skill.name,
        "version": skill.version,
        "path": request.place,
        "digest": str(skill.artifact.digest),
        "executor": "http" if action.executor == "http" else "python",
        "entrypoint": action.entrypoint or None,
        "url": action.settings.get("url") if action.executor == "http" else None,
        "health": health,
        "network": list(action.permissions.network),
        "secrets": list(action.permissions.secrets),
        "files": len(skill.files),
        "size": sum(file.size for file in skill.files),
        "granted": is_granted,
        "granted_before": request.is_granted,
        "changes": None if changes is None else _changes_object(changes),
    }


def _changes_object(changes: GrantChanges) -> GrantChangesObject:
    return {
        "since": changes.since.digest,
        "network": list(changes.network),
        "secrets": list(changes.secrets),
        "new": list(changes.new),
        "changed": list(changes.changed),
        "gone": list(changes.gone),
    }


@command.command(name="list")
@store_option
@output_options
def list_(*, output: Output) -> None:
    """List every grant: skill, digest, permissions, grantor and date."""
    stored = _open_grants()
    grants = run_async(stored.all()) if stored else ()
    rows = [_grant_object(grant, is_revoked=False) for grant in grants]
    output.document({"schema": "skillwire/grant-list/1", "dry_run": False, "grants": rows})
    table: list[list[Part]] = []
    for grant in grants:
        by = dim(f"{grant.by}, {utc_time(grant.at)[:10]}")._replace(is_nowrap=True)
        permissions = ", ".join([*grant.permissions.network, *grant.permissions.secrets]) or "no network, no secrets"
        table.append([bold(grant.skill), grant.version, grant.digest[:_SHORT], by, permissions])
    output.table(table)
    if not grants:
        output.note("there are no grants yet; to allow a skill, run skillwire grant add FOLDER")


@command.command()
@click.argument("which", metavar="NAME|DIGEST...", nargs=-1, required=True)
@dry_run_option
@store_option
@output_options
def revoke(*, output: Output, which: tuple[str, ...], dry_run: bool) -> None:
    """Revoke every grant of a skill, or of one digest; no further execution starts."""
    grants = _open_grants()
    if grants is None:
        raise NotFoundError("GRANT_NOT_FOUND", f"there is no grant for {ascii(which[0])[:80]}")
    found = list(dict.fromkeys(grant.digest for name in which for grant in run_async(grants.find(name))))
    taken = [grant for grant in run_async(grants.all()) if grant.digest in found]
    if not dry_run:
        for digest in found:
            run_async(grants.take_back(digest))
    rows = [_grant_object(grant, is_revoked=True) for grant in taken]
    output.document({"schema": "skillwire/grant-list/1", "dry_run": dry_run, "grants": rows})
    verb = success("would revoke " if dry_run else "revoked ")
    for grant in taken:
        output.line(verb, bold(grant.skill), f" {grant.version}", dim(f"  {grant.digest[:_SHORT]}"))


def _grant_object(grant: Grant, *, is_revoked: bool) -> GrantObject:
    return {
        "name": grant.skill,
        "version": grant.version,
        "digest": grant.digest,
        "network": list(grant.permissions.network),
        "secrets": list(grant.permissions.secrets),
        "by": grant.by,
        "at": utc_time(grant.at),
        "revoked": is_revoked,
    }
