"""Answering a shell that asks what could stand at the cursor.

The scripts (:mod:`skillwire.cli.completion_scripts`) run ``skillwire`` with ``_SKILLWIRE_COMPLETE`` set; click says
which parameter the cursor is in, and :data:`skillwire.cli.complete_names.VALUES` where its values come from. Whatever
goes wrong, the answer is that nothing is known: a message in the middle of somebody's typing helps nobody.

Trust: names come from indexes and locks. A word is offered only when it holds nothing that a shell could
read as more than a word, so that pressing Tab and Return never runs what a stranger wrote.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import click

# click says by these, which it keeps to itself, where the cursor is; its own completion can do no live names by table.
from click.shell_completion import _resolve_context, _resolve_incomplete, split_arg_string

from skillwire.cli.complete_names import VALUES, Word
from skillwire.cli.output import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: What every shell reads as a part of one plain word.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./@%+][A-Za-z0-9_.,:/@%+=#-]*", re.ASCII)
_MOST: Final = 1_000  # more than anybody reads, few enough for a shell to lay out at once
_HELP_WIDTH: Final = 60


def answer(cli: click.Command, shell: str, arguments: Sequence[str]) -> int:
    """Print what could stand at the cursor; return the exit code.

    Args:
        cli: the whole command line.
        shell: ``bash``, ``zsh`` or ``fish``.
        arguments: the words after the program up to the cursor, the last one unfinished; for bash the line as it is.
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
    """Return what could stand in place of ``incomplete`` after the words ``before``."""
    context = _resolve_context(cli, {}, "skillwire", list(before))
    item, part = _resolve_incomplete(context, list(before), incomplete)
    kept = incomplete.removesuffix(part) if isinstance(item, click.Option) else ""  # --option=, where it is one word
    source = VALUES.get((context.info_name or "", item.name or "")) if isinstance(item, click.Parameter) else None
    if source is None:
        return [_own_word(one, kept) for one in item.shell_complete(context, part)]
    return [word._replace(value=kept + word.value) for word in _harmless(source(context, part), part)][:_MOST]


def _own_word(item: click.shell_completion.CompletionItem[str], kept: str) -> Word:
    return Word(kept + item.value if item.type == "plain" else "", _short(item.help or ""), item.type)


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
    """Return how much of the last word bash keeps as it stands: up to its last break, unless it is quoted."""
    if not line.endswith(incomplete) or line.removesuffix(incomplete).endswith(("'", '"')):
        return 0
    breaks = set(os.environ.get("_SKILLWIRE_BREAKS", "")) & set(":=")
    return max((incomplete.rfind(mark) + 1 for mark in breaks), default=0)
