"""``skillwire grant``: a person agrees that the code of a skill is run here, with what it asks for.

What is asked for is said in full before anybody is asked: on standard error, where the question is, so that a result
that goes elsewhere takes nothing of it away. What was read is what is granted: the digest is that of the files as they
were then, and is the one that ``serve`` publishes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from skillwire.cli.options import confirm
from skillwire.cli.output import bold, dim, doubtful, good, nowrap, output_options
from skillwire.errors import NotFoundError, SourceLocation, TrustError, UsageError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skillwire.cli.output import Output, Part
    from skillwire.executions.grants import GrantChanges
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.skill import Action, HealthCheck

#: What the rules say of what scripts do, and of what is hidden in them: all of it matters to who lets them run.
_TOLD: Final = frozenset({"PIPE_TO_SHELL", "NETWORK_UNDECLARED", "HIDDEN_CHARACTERS", "HIDDEN_IN_FILE"})
#: As much of a digest as people compare.
SHORT: Final = len("sha256:") + 12
#: More changed files than this are counted, not named.
_NAMED: Final = 8


class _Request(NamedTuple):
    """A skill that somebody is asked about, what is new in it, and whether exactly this was granted before."""

    prepared: PreparedSkill
    action: Action
    changes: GrantChanges | None
    is_granted: bool

    @property
    def name(self) -> str:
        return self.prepared.skill.name


@click.command()
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--all", "take_all", is_flag=True, help="Every skill below FOLDER that runs something.")
@click.option("-y", "--yes", is_flag=True, help="Agree without being asked, to all that is named.")
@click.option("--dry-run", is_flag=True, help="Say what is asked for, change nothing.")
@output_options
def command(*, output: Output, folders: tuple[Path, ...], take_all: bool, yes: bool, dry_run: bool) -> None:
    """Agree that the code of the skill in each FOLDER is run here, with what it asks for.

    A server runs nothing of a folder before. The grant is for these files and these permissions: whatever changes in
    the folder needs a new one. It belongs to the state directory, so run it as the user who runs the server.
    """
    requests = list(_requests(list(_skill_folders(folders, take_all=take_all)), take_all=take_all))
    for request in requests:
        if dry_run or not request.is_granted:
            _print_grants(output, request, output.line if dry_run else output.note)
    if not requests:
        output.note("nothing there is run here, so nothing needs a grant")
    pending = [request for request in requests if not request.is_granted]
    if dry_run:
        _document(output, requests, (), dry_run=True)
        return
    if pending and not yes and not _can_ask(output):
        raise _refusal(pending, "nobody can be asked")
    agreed = [request for request in pending if yes or _agrees(request)]
    _keep(agreed)
    declined = [request for request in pending if request not in agreed]
    if not declined:
        _document(output, requests, agreed, dry_run=False)
    for request in requests:
        if request not in declined:
            verb = good("granted ") if request in agreed else "granted before "
            output.line(verb, bold(request.name), f" {request.prepared.skill.version}")
    if declined:
        raise _refusal(declined, "nobody has agreed")


def _skill_folders(folders: Sequence[Path], *, take_all: bool) -> Iterator[Path]:
    """Yield the folder of each skill that is meant."""
    from skillwire.folder.files import find_folders  # noqa: PLC0415  # --help does without

    for folder in dict.fromkeys(path.parent if path.name == "SKILL.md" else path for path in folders):
        found = find_folders(folder)
        if not found:
            raise NotFoundError(
                "SKILL_NOT_FOUND", "there is no SKILL.md, here or below", place=SourceLocation(str(folder))
            )
        if found != [folder] and not take_all:
            fix = f"Name one, such as {found[0]}, or give --all."
            raise UsageError("USAGE", f"{folder} holds {len(found)} skills and is none itself", fix=fix)
        yield from found


def _requests(folders: Sequence[Path], *, take_all: bool) -> Iterator[_Request]:
    """Yield what each skill asks for; with ``take_all`` those that need no grant are passed over.

    Raises:
        ValidationError: ``SKILLS_BROKEN``. UsageError: ``GRANT_NEEDLESS``.
    """
    from skillwire.adapters.files.loading import JUDGES  # noqa: PLC0415  # --help does without
    from skillwire.adapters.sqlite.open import has_database, open_grants  # noqa: PLC0415  # same
    from skillwire.executions.grants import granted_action, needs_grant  # noqa: PLC0415  # same
    from skillwire.folder.publish import RefusedFolder, prepare  # noqa: PLC0415  # same

    grants = open_grants() if has_database() else None
    for folder in folders:
        prepared = prepare(folder.absolute(), "local", judges=JUDGES)
        if isinstance(prepared, RefusedFolder):
            none = f"None of the {len(folders)} was granted. " if len(folders) > 1 else ""
            fix = f"{none}See what is wrong: skillwire check {folder}."
            raise ValidationError("SKILLS_BROKEN", "it cannot be published", place=SourceLocation(str(folder)), fix=fix)
        skill = prepared.skill
        if take_all and not needs_grant(skill):
            continue
        try:
            action = granted_action(skill)
        except UsageError as error:
            if len(folders) > 1:
                error.fix = f"None of the {len(folders)} was granted. Leave {skill.name} out, or give --all."
            raise
        changes = grants.changes(skill) if grants else None
        yield _Request(prepared, action, changes, grants is not None and grants.allows(skill))


def _can_ask(output: Output) -> bool:
    return not (output.as_json or output.quiet) and sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(request: _Request) -> bool:
    return confirm(f"Let {request.name} run here, with this?")


def _keep(agreed: Sequence[_Request]) -> None:
    if agreed:
        from skillwire.adapters.sqlite.open import open_grants  # noqa: PLC0415  # as above
        from skillwire.cli.options import login_name  # noqa: PLC0415  # same

        by = login_name()
        for request in agreed:
            open_grants().agree(request.prepared.skill, by)


def _refusal(requests: Sequence[_Request], why: str) -> TrustError:
    names = ", ".join(request.name for request in requests)
    return TrustError("GRANT_NOT_AGREED", f"{names}: {why}", details={"skills": [row.name for row in requests]})


def _print_grants(output: Output, request: _Request, say: Callable[..., None]) -> None:
    """Say what a skill asks for, what is new in it, and what its scripts seem to do."""
    skill, action, changes = request.prepared.skill, request.action, request.changes
    say(bold(skill.name), f" {skill.version}", dim(f"  {skill.artifact.digest[:SHORT]}"))
    for label, parts in _rows(request):
        say(dim(f"  {label:<9}"), *parts)
    if unset := _unset(action):
        say(dim(f"  {'needs':<9}"), doubtful(f"secrets {', '.join(unset)}: not set here"))
    if not action.permissions.network and not action.permissions.secrets:
        say(dim(f"  {'asks for':<9}"), "no network and no secrets")
    if changes is not None and not request.is_granted:
        since = changes.since
        who = nowrap(f"{since.by}, {_day(since.at)}")
        say(dim(f"  {'since':<9}"), f"{since.version}, granted by ", who, ": ", *_news(changes))
    for finding in skill.findings:
        if finding.code in _TOLD:
            output.finding(finding)


def _unset(action: Action) -> list[str]:
    """Return the secrets that the environment lacks; a server may have them, in its own or in a file."""
    from skillwire.adapters.executors.secrets import Secrets  # noqa: PLC0415  # --help does without

    return Secrets(os.environ).find(action.permissions.secrets)[1]


def _rows(request: _Request) -> Iterator[tuple[str, list[Part]]]:
    skill, action, changes = request.prepared.skill, request.action, request.changes
    yield ("runs", [f"{action.entrypoint}, {action.export}(args)"]) if action.executor == "python" else _call(action)
    if action.health is not None:
        yield "checks", [_check(action.health)]
    for label, names, new in (
        ("network", action.permissions.network, changes.network if changes else ()),
        ("secrets", action.permissions.secrets, changes.secrets if changes else ()),
    ):
        if names:
            marked = [_marked(name, is_new=name in new, is_last=name == names[-1]) for name in names]
            yield label, [part for parts in marked for part in parts]
    number = len(skill.files)
    size = sum(file.size for file in skill.files)
    yield "files", [f"{number} {'file' if number == 1 else 'files'}, {size:,} bytes"]


def _call(action: Action) -> tuple[str, list[Part]]:
    settings = action.settings
    names = ", ".join(settings.get("headers", {}))
    fields: list[Part] = [f", with {names}"] if names else []
    return "calls", [f"{settings.get('method', 'POST')} {settings.get('url', '')}", *fields]


def _check(health: HealthCheck) -> str:
    """Return what is run or asked, again and again, to know how the skill is."""
    what = f"GET {health.url}" if health.url else f"{health.entrypoint}, {health.export}(args)"
    return f"{what}, every {health.interval} s while it is announced"


def _health_object(health: HealthCheck | None) -> dict[str, Any] | None:
    if health is None:
        return None
    return {
        "entrypoint": health.entrypoint or None,
        "export": health.export or None,
        "url": health.url or None,
        "interval": health.interval,
    }


def _marked(name: str, *, is_new: bool, is_last: bool) -> list[Part]:
    return [name, *([doubtful(" (new)")] if is_new else []), *([] if is_last else [", "])]


def _news(changes: GrantChanges) -> Iterator[Part]:
    """Yield what changed, in words."""
    rows = [("new", changes.new), ("changed", changes.changed), ("gone", changes.gone)]
    told = [f"{word} {_named(paths)}" for word, paths in rows if paths]
    more = [*(["asks for more"] if changes.network or changes.secrets else [])]
    yield doubtful("; ".join([*told, *more]) or "no file changed")


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more


def _day(seconds: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  # --help does without

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _document(output: Output, requests: Sequence[_Request], agreed: Sequence[_Request], *, dry_run: bool) -> None:
    rows = [_object(request, is_granted=request.is_granted or request in agreed) for request in requests]
    output.document("grant/1", {"dry_run": dry_run, "skills": rows})


def _object(request: _Request, *, is_granted: bool) -> dict[str, Any]:
    skill, action, changes = request.prepared.skill, request.action, request.changes
    return {
        "name": skill.name,
        "version": skill.version,
        "path": str(request.prepared.path),
        "digest": str(skill.artifact.digest),
        "executor": action.executor,
        "entrypoint": action.entrypoint or None,
        "url": action.settings.get("url") if action.executor == "http" else None,
        "health": _health_object(action.health),
        "network": list(action.permissions.network),
        "secrets": list(action.permissions.secrets),
        "files": len(skill.files),
        "size": sum(file.size for file in skill.files),
        "granted": is_granted,
        "granted_before": request.is_granted,
        "changes": None if changes is None else _changes_object(changes),
    }


def _changes_object(changes: GrantChanges) -> dict[str, Any]:
    return {
        "since": changes.since.digest,
        "network": list(changes.network),
        "secrets": list(changes.secrets),
        "new": list(changes.new),
        "changed": list(changes.changed),
        "gone": list(changes.gone),
    }
