"""Where live names come from when a shell completes: the lock, the cache, the tables. Never the network.

A source is given click's context and what was typed of the word, and yields words. Who asks drops those that do not
begin with what was typed, or that a shell would not take as they are.

Trust: an index in the cache is what a stranger sent, and an origin may be called anything. Only names that may name a
skill and origins that are URLs leave this module.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click

    from skillwire.model.cached_response import CachedResponse


class Word(NamedTuple):
    """One answer: ``plain`` with a value, or ``dir`` or ``file`` to let the shell complete paths."""

    value: str
    help: str = ""
    kind: str = "plain"


def _installed(context: click.Context, _: str) -> Iterator[Word]:
    from skillwire.adapters.files.skills_folder import FileSkillsFolder  # noqa: PLC0415  # only where it is asked for

    for_user = context.params.get("for_user")
    root = Path.home() if for_user else Path()
    given = {name for value in context.params.values() if isinstance(value, tuple) for name in value}
    for skill in FileSkillsFolder(root, root / ".agents/skills.lock" if for_user else None).read_lock().skills.values():
        if skill.name not in given:
            yield Word(skill.name, skill.origin)


def _references(context: click.Context, typed: str) -> Iterator[Word]:
    scheme, separator, rest = typed.rpartition("://")
    if context.params.get("frozen"):
        yield from _installed(context, typed)
    elif typed.startswith((".", "/", "~")):
        yield Word("", kind="dir")
    elif "#" in rest:
        endpoint = typed.partition("#")[0]
        for name, description in _published(f"{endpoint}#"):
            yield Word(f"{endpoint}#{name}", description)
    elif "/" in rest:
        base = typed.rpartition("/")[0]
        for name, description in _published(base):
            yield Word(f"{base}/{name}", description)
    else:
        for source in () if separator else _sources():
            # A bare name is looked up in indexes; what an endpoint has is named behind its address.
            yield from (Word(*row) for row in (() if "#" in source else _published(source)))
        endpoints = {_base_of(source) for source in _sources() if "#" in source}
        for base, short in _known_origins().items():
            yield Word(f"{base if scheme else short}{'#' if base in endpoints else '/'}", "its skills")


def _origins(_: click.Context, typed: str) -> Iterator[Word]:
    for base, short in _known_origins().items():
        yield Word(base if "://" in typed else short)


def _files(context: click.Context, _: str) -> Iterator[Word]:
    from skillwire.client.synchronous import Client  # noqa: PLC0415  # only where it is asked for

    if "#" in context.params["reference"]:  # an endpoint lists no files; these two are what most have
        yield from (Word("SKILL.md", "what it does"), Word("skill.toml", "what it takes"))
        return
    with Client(offline=True) as client:
        for file in client.skill(context.params["reference"]).files():
            yield Word(file.path, f"{len(file.content):,} bytes")


def _agents(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.resolver.agents import AGENTS  # noqa: PLC0415  # only where it is asked for

    for key, agent in AGENTS.items():
        yield Word(key, agent.title)


def _codes(_: click.Context, typed: str) -> Iterator[Word]:
    from skillwire.codes import CODES  # noqa: PLC0415  # only where it is asked for
    from skillwire.folder.rules import RULES  # noqa: PLC0415  # same

    for code, row in {**CODES, **RULES}.items():
        yield Word(code.lower() if typed.islower() else code, getattr(row, "summary", ""))


def _settings(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.resolver.settings import SETTINGS  # noqa: PLC0415  # only where it is asked for

    for key, row in SETTINGS.items():
        yield Word(key, row.meaning)


def _tokens(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.adapters.sqlite.open import has_database, open_tokens  # noqa: PLC0415  # only where it is asked for

    for token in open_tokens().all() if has_database() else ():
        if token.revoked is None:
            yield Word(token.token_id, token.name)


def _grants(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.adapters.sqlite.open import has_database, open_grants  # noqa: PLC0415  # only where it is asked for

    grants = open_grants().all() if has_database() else ()
    for name, version in {grant.skill: grant.version for grant in grants}.items():
        yield Word(name, version)


def _tasks(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.adapters.clock import moment  # noqa: PLC0415  # same
    from skillwire.adapters.sqlite.open import has_database, open_ledger  # noqa: PLC0415  # only where it is asked for
    from skillwire.invocation.inbox import Inbox, read_task  # noqa: PLC0415  # same

    for task in Inbox(open_ledger(), "nobody", moment).tasks() if has_database() else ():
        yield Word(task.execution_id, read_task(task).title)


def _executions(_: click.Context, __: str) -> Iterator[Word]:
    from skillwire.adapters.files.calls import FileCalls  # noqa: PLC0415  # only where it is asked for
    from skillwire.adapters.files.directories import state_directory  # noqa: PLC0415  # same

    for call in FileCalls(state_directory() / "calls.json").recent():
        yield Word(call.execution_id or "", call.skill_id)


def _folders(_: click.Context, __: str) -> Iterator[Word]:
    yield Word("", kind="dir")


def _sources() -> tuple[str, ...]:
    from skillwire.adapters.files.settings_file import load_settings  # noqa: PLC0415  # only where it is asked for

    return load_settings(Path(), os.environ).sources


def _known_origins() -> dict[str, str]:
    """Return the origins of the settings and of earlier calls: base URL → the shortest text for it."""
    from skillwire.adapters.files.directories import state_directory  # noqa: PLC0415  # only where it is asked for
    from skillwire.limits import STATE_FILE_BYTES  # noqa: PLC0415  # same
    from skillwire.trust.guarded_json import load_json  # noqa: PLC0415  # same

    book = state_directory() / "origins.json"
    remembered = load_json(book.read_bytes(), max_bytes=STATE_FILE_BYTES) if book.exists() else {}
    bases = [*map(_base_of, _sources()), *(remembered if isinstance(remembered, dict) else ())]
    return {base: _shortest(base) for base in bases}


def _base_of(source: str) -> str:
    from skillwire.resolver.reference import source_location  # noqa: PLC0415  # only where it is asked for

    return source_location(source).base


def _shortest(base: str) -> str:
    from skillwire.errors import UsageError  # noqa: PLC0415  # only where it is asked for

    rest = base.partition("://")[2]
    try:
        return rest if _base_of(rest) == base else base
    except UsageError:  # without its scheme it is no address
        return base


def _published(source: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of each skill in the index of ``source`` that the cache holds, however old."""
    from skillwire.limits import INDEX_BYTES  # noqa: PLC0415  # only where it is asked for
    from skillwire.model.name import is_dotted_name, is_skill_name  # noqa: PLC0415  # same
    from skillwire.trust.guarded_json import load_json  # noqa: PLC0415  # same

    cached = _cached_index(source)
    document = load_json(cached.body, max_bytes=INDEX_BYTES) if cached else None
    skills = document.get("skills") if isinstance(document, dict) else None
    is_name = is_dotted_name if "#" in source else is_skill_name
    for entry in skills if isinstance(skills, list) else ():
        if isinstance(entry, dict) and is_name(entry.get("name")):
            yield entry["name"], str(entry.get("description", ""))


def _cached_index(source: str) -> CachedResponse | None:
    from skillwire.adapters.files import credentials  # noqa: PLC0415  # only where it is asked for
    from skillwire.adapters.files.directories import cache_directory  # noqa: PLC0415  # same
    from skillwire.adapters.files.response_cache import FileResponseCache  # noqa: PLC0415  # same
    from skillwire.model.url import parse_url  # noqa: PLC0415  # same
    from skillwire.resolver.reference import SKILLS_RPC, source_location  # noqa: PLC0415  # same

    location = source_location(source)
    urls = [f"{location.url}#"] if location.protocol == SKILLS_RPC else [location.url, location.old_url]
    cache = FileResponseCache(cache_directory() / "responses")
    url = parse_url(location.url)
    stored = credentials.find_stored(url)
    credential = credentials.find_token(url, os.environ) or (stored.mark if stored else None)
    credential = credential or credentials.find_password(url, os.environ)
    found = (cache.look_up(place, credential) for place in urls if place)
    return next(filter(None, found), None)


#: Command and parameter → where its values come from. What is not here completes by its type, as click does.
VALUES: Final[dict[tuple[str, str], Callable[[click.Context, str], Iterator[Word]]]] = {
    ("add", "references"): _references,
    ("add", "agents"): _agents,
    ("show", "reference"): _references,
    ("cat", "reference"): _references,
    ("cat", "path"): _files,
    ("which", "reference"): _references,
    ("call", "reference"): _references,
    **{(command, "execution"): _executions for command in ("status", "result", "cancel")},
    ("find", "origins"): _origins,
    ("explain", "codes"): _codes,
    ("show", "keys"): _settings,
    ("origins", "forget"): _origins,
    ("revoke", "token_id"): _tokens,
    ("rotate", "token_id"): _tokens,
    **{(command, "names"): _installed for command in ("remove", "update", "outdated", "verify")},
    ("revoke", "which"): _grants,
    **{(command, "task_id"): _tasks for command in ("show", "claim", "complete", "reject", "release")},
    **{(command, "folders"): _folders for command in ("build", "serve", "grant")},
}
