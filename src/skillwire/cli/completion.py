"""``skillwire completion``: scripts that complete commands, options and names in a shell.

A script passes the words of the command line to the typed program, with ``_SKILLWIRE_COMPLETE`` set to the shell's
name, and reads lines of ``kind TAB value TAB help``. Kinds are ``plain`` for a word, and ``dir`` and ``file``, which
the shell completes itself. bash splits words at ``:`` and ``=``, so it passes the whole line as one argument and
receives only the part after the last split. click finds the parameter at the cursor, and ``VALUES`` its source of
words: the lock, the cache or a table, never the network. Any error yields no words, since a message would disturb the
command line.

Trust: names come from indexes and locks. A word is offered only if a shell cannot read it as more than a word, so that
Tab and Return never run text from outside.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import click

# click keeps to itself what says where the cursor is; its own completion cannot look live names up by a table.
from click.shell_completion import _resolve_context, _resolve_incomplete, split_arg_string

from skillwire.adapters.clock import moment
from skillwire.adapters.files import credentials
from skillwire.adapters.files.atomic import cache_directory, home_directory, state_directory
from skillwire.adapters.files.calls import FileCalls
from skillwire.adapters.files.client_cache import FileResponseCache
from skillwire.adapters.files.install_folder import FileSkillsFolder
from skillwire.adapters.files.settings_file import load_settings
from skillwire.cli.options import run_async
from skillwire.cli.output import Output, one_line
from skillwire.client.sync import Client
from skillwire.codes import CODES
from skillwire.errors import UsageError
from skillwire.folder.rules import RULES
from skillwire.limits import INDEX_BYTES, STATE_FILE_BYTES
from skillwire.model.ref import CachedResponse
from skillwire.model.skill import is_dotted_name, is_skill_name
from skillwire.model.url import parse_url
from skillwire.resolver.agents import AGENTS
from skillwire.resolver.references import parse_source
from skillwire.resolver.settings import SETTINGS
from skillwire.resolver.sources import LAN, SKILLS_RPC
from skillwire.trust.guarded_json import load_json

#: What every shell reads as a part of one plain word.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./@%+][A-Za-z0-9_.,:/@%+=#-]*", re.ASCII)
_MOST: Final = 1_000  # more than a reader needs, few enough for a shell to lay out at once
_HELP_WIDTH: Final = 60


class Word(NamedTuple):
    """One answer: ``plain`` with a value, or ``dir`` or ``file`` to let the shell complete paths."""

    value: str
    help: str = ""
    kind: str = "plain"


def _installed(context: click.Context, _: str) -> Iterator[Word]:
    for_user = context.params.get("for_user")
    root = home_directory() if for_user else Path()
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
        sources = load_settings(Path(), os.environ).sources
        for source in () if separator else sources:
            # A bare name is looked up in indexes; what an endpoint has is named behind its address.
            yield from (Word(*row) for row in (() if "#" in source else _published(source)))
        endpoints = {_base_of(source) for source in sources if "#" in source}
        for base, short in _known_origins().items():
            if base == f"{LAN}:":  # it has no skills of its own, which a reference could name
                continue
            yield Word(f"{base if scheme else short}{'#' if base in endpoints else '/'}", "its skills")


def _origins(_: click.Context, typed: str) -> Iterator[Word]:
    for base, short in _known_origins().items():
        yield Word(base if "://" in typed else short)


def _files(context: click.Context, _: str) -> Iterator[Word]:
    if "#" in context.params["reference"]:  # an endpoint lists no files; these two are what most have
        yield from (Word("SKILL.md", "its description"), Word("skill.toml", "its inputs"))
        return
    with Client(offline=True) as client:
        for file in client.show(context.params["reference"]).files():
            yield Word(file.path, f"{len(file.content):,} bytes")


def _codes(_: click.Context, typed: str) -> Iterator[Word]:
    for code, row in {**CODES, **RULES}.items():
        yield Word(code.lower() if typed.islower() else code, getattr(row, "summary", ""))


def _stored(kind: str, _: click.Context, __: str) -> Iterator[Word]:
    """Yield the tokens, grants or tasks in the database, which is not created."""
    from skillwire.adapters.stores import open_stores  # noqa: PLC0415  # loads msgspec

    stores = open_stores()
    if not stores.exists:
        return
    if kind == "tokens":
        tokens = run_async(stores.tokens().all())
        yield from (Word(token.token_id, token.name) for token in tokens if token.revoked is None)
    elif kind == "grants":
        grants = run_async(stores.grants().all())
        yield from (Word(*row) for row in {grant.skill: grant.version for grant in grants}.items())
    else:
        from skillwire.executions.tasks import Inbox, read_task  # noqa: PLC0415  # loads msgspec

        tasks = run_async(Inbox(stores.ledger, "completion", moment).tasks())
        yield from (Word(task.execution_id, read_task(task).title) for task in tasks)


def _executions(_: click.Context, __: str) -> Iterator[Word]:
    for call in FileCalls(state_directory() / "calls.json").recent():
        yield Word(call.execution_id or "", call.skill_id)


def _known_origins() -> dict[str, str]:
    """Return the origins of the settings and of earlier calls: base URL → its shortest text."""
    book = state_directory() / "origins.json"
    remembered = load_json(book.read_bytes(), max_bytes=STATE_FILE_BYTES) if book.exists() else {}
    sources = load_settings(Path(), os.environ).sources
    bases = [*map(_base_of, sources), *(remembered if isinstance(remembered, dict) else ())]
    return {base: _shortest(base) for base in bases}


def _base_of(source: str) -> str:
    return parse_source(source).base


def _shortest(base: str) -> str:
    rest = base.partition("://")[2]
    try:
        return rest if _base_of(rest) == base else base
    except UsageError:  # without its scheme it is no address
        return base


def _published(source: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of each skill in the index of ``source`` that the cache holds, however old."""
    cached = _cached_index(source)
    document = load_json(cached.body, max_bytes=INDEX_BYTES) if cached else None
    skills = document.get("skills") if isinstance(document, dict) else None
    is_name = is_dotted_name if "#" in source else is_skill_name
    for entry in skills if isinstance(skills, list) else ():
        if isinstance(entry, dict) and is_name(entry.get("name")):
            yield entry["name"], str(entry.get("description", ""))


def _cached_index(source: str) -> CachedResponse | None:
    location = parse_source(source)
    if "://" not in location.url:  # the local network, and repositories of this machine, have no index
        return None
    urls = [f"{location.url}#"] if location.source == SKILLS_RPC else [location.url, location.old_url]
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
    ("add", "agents"): lambda *_: (Word(key, agent.title) for key, agent in AGENTS.items()),
    ("show", "reference"): _references,
    ("cat", "reference"): _references,
    ("cat", "path"): _files,
    ("which", "reference"): _references,
    ("call", "reference"): _references,
    **{(command, "execution"): _executions for command in ("show", "result", "cancel")},
    ("find", "origins"): _origins,
    ("explain", "codes"): _codes,
    ("show", "keys"): lambda *_: (Word(key, row.meaning) for key, row in SETTINGS.items()),
    ("revoke", "origins"): _origins,
    ("revoke", "token_id"): partial(_stored, "tokens"),
    ("rotate", "token_id"): partial(_stored, "tokens"),
    **{(command, "names"): _installed for command in ("remove", "update", "outdated", "verify")},
    ("revoke", "which"): partial(_stored, "grants"),
    **{
        (command, "task_id"): partial(_stored, "tasks")
        for command in ("show", "claim", "complete", "reject", "release")
    },
    **{(command, "folders"): lambda *_: iter([Word("", kind="dir")]) for command in ("build", "serve", "add")},
}


def answer(cli: click.Command, shell: str, arguments: Sequence[str]) -> int:
    """Print the completions at the cursor; return the exit code.

    Args:
        cli: the whole command line.
        shell: ``bash``, ``zsh`` or ``fish``.
        arguments: the words after the program up to the cursor, the last one unfinished; for bash the whole line.
    """
    try:
        line = arguments[0] if shell == "bash" else ""
        *before, incomplete = _split(line) if shell == "bash" else arguments
        kept = _length_before_break(line, incomplete) if shell == "bash" else 0
        for word in complete(cli, before, incomplete):
            click.echo(f"{word.kind}\t{word.value[kept:]}\t{word.help}".rstrip("\t"))
    except Exception:  # noqa: BLE001  # half a command line may be anything; an error would land in the user's typing
        return 1
    return 0


def complete(cli: click.Command, before: Sequence[str], incomplete: str) -> list[Word]:
    """Return the completions of ``incomplete`` after the words ``before``."""
    context = _resolve_context(cli, {}, "skillwire", list(before))
    item, part = _resolve_incomplete(context, list(before), incomplete)
    kept = incomplete.removesuffix(part) if isinstance(item, click.Option) else ""  # --option=, where it is one word
    source = VALUES.get((context.info_name or "", item.name or "")) if isinstance(item, click.Parameter) else None
    if source is None:
        return [
            Word(kept + one.value if one.type == "plain" else "", _short(one.help or ""), one.type)
            for one in item.shell_complete(context, part)
        ]
    return [word._replace(value=kept + word.value) for word in _harmless(source(context, part), part)][:_MOST]


def _harmless(words: Iterator[Word], part: str) -> Iterator[Word]:
    for word in words:
        if word.kind != "plain":
            yield word
        elif word.value.startswith(part) and _PLAIN.fullmatch(word.value):
            yield word._replace(help=_short(word.help))


def _short(text: str) -> str:
    line = " ".join(one_line(text).split())
    return line if len(line) <= _HELP_WIDTH else f"{line[: _HELP_WIDTH - 1].rstrip()}…"


def _split(line: str) -> list[str]:
    """Return the words after the program; the last one is empty where a new one begins."""
    words = split_arg_string(line)[1:]
    begins_anew = split_arg_string(f"{line}x")[1:] != [*words[:-1], *(f"{word}x" for word in words[-1:])]
    return [*words, ""] if begins_anew or not words else words


def _length_before_break(line: str, incomplete: str) -> int:
    """Return the length of the last word that bash keeps: up to its last break, unless it is quoted."""
    if not line.endswith(incomplete) or line.removesuffix(incomplete).endswith(("'", '"')):
        return 0
    breaks = set(os.environ.get("_SKILLWIRE_BREAKS", "")) & set(":=")
    return max((incomplete.rfind(mark) + 1 for mark in breaks), default=0)


_BASH: Final = r"""
_skillwire() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == */ ]] && compopt -o nospace 2>/dev/null
                ;;
        esac
    done < <(_SKILLWIRE_COMPLETE=bash _SKILLWIRE_BREAKS=$COMP_WORDBREAKS \
        "${1/#\~/$HOME}" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o nosort -F _skillwire skillwire
"""

_ZSH: Final = r"""
_skillwire() {
    local program=${(Q)words[1]} kind value help
    local -a entries places
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            dir) _path_files -/ ;;
            file) _files ;;
            plain)
                if [[ $value == */ ]]; then
                    places+=("$value")
                else
                    entries+=("${value//:/\\:}${help:+:$help}")
                fi
                ;;
        esac
    done < <(_SKILLWIRE_COMPLETE=zsh "${program/#\~/$HOME}" "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( $#places )) && compadd -S '' -a places
    (( $#entries )) && _describe -V 'skillwire' entries
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _skillwire "$@"
else
    compdef _skillwire skillwire
fi
"""

_FISH: Final = r"""
function __skillwire
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    for line in (_SKILLWIRE_COMPLETE=fish $program $words[2..-1] "$token" 2>/dev/null)
        set -l parts (string split \t -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories "$token"
            case file
                __fish_complete_path "$token"
            case plain
                echo $parts[2]\t$parts[3]
        end
    end
end
complete --command skillwire --no-files --arguments '(__skillwire)'
"""

#: Shell → how to have its script read by every new shell, and the script.
SCRIPTS: Final[dict[str, tuple[str, str]]] = {
    "bash": ("""echo 'eval "$(skillwire completion bash)"' >> ~/.bashrc""", _BASH),
    "zsh": ("""echo 'eval "$(skillwire completion zsh)"' >> ~/.zshrc  # below the line with compinit""", _ZSH),
    "fish": ("skillwire completion fish > ~/.config/fish/completions/skillwire.fish", _FISH),
}


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the completion script for SHELL: bash, zsh or fish.

    It completes commands, options, installed skills, published skills in the cache, agents, settings and codes.
    Pressing Tab never uses the network. The first lines of the script explain its installation.
    """
    how, script = SCRIPTS[shell]
    head = "#compdef skillwire\n" if shell == "zsh" else ""
    click.echo(f"{head}# To install: {how}\n{script}")
    if sys.stdout.isatty():
        Output().hint("to install it:", how)
