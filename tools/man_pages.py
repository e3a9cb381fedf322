"""Man pages, from the commands, their examples and the tables.

click-man writes NAME, SYNOPSIS, DESCRIPTION and OPTIONS alone, so the pages are made here, with click's own objects.
``tools/hatch_build.py`` builds them into the wheel; ``python tools/man_pages.py FOLDER`` writes them. A page has the
date of the build, or that of ``SOURCE_DATE_EPOCH``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillwire import errors
from skillwire.cli import main as command_line
from skillwire.cli.main import examples_of
from skillwire.resolver.settings import SETTINGS
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LINE: Final = 78
_FILES: Final = (
    ("skills.lock", "The installed skills of a project, with origins and digests."),
    ("~/.agents/skills.lock", "The same for your own skills, with --global."),
    ("skillwire.toml", "The settings of a project, here or in a folder above."),
    ("~/.config/skillwire/skillwire.toml", "Your own settings."),
    ("~/.cache/skillwire", "Cached indexes and artifacts."),
    ("~/.local/state/skillwire", "Known origins, and the data of a server."),
)
_VARIABLES: Final = (
    ("SKILLWIRE_HOME", "One folder for settings, cache and state, instead of the XDG folders."),
    ("SKILLWIRE_TOKENS", "Tokens for private origins: origin=token pairs, separated by white space."),
    ("SKILLWIRE_DEBUG", "Print a stack trace with an error."),
    ("NO_COLOR", "Disables colours."),
)


def write_pages(folder: Path) -> list[Path]:
    """Write the man pages into ``folder``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in man_pages():
        paths.append(folder / f"{name}.1")
        paths[-1].write_text(text)
    return paths


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each man page."""
    yield (
        "skillwire",
        _page("skillwire", "Publish a folder of skills once; find, verify and install skills", _overview()),
    )
    for group in command_line.GROUPS.values():
        for name, summary in group.items():
            command = command_line.cli.get_command(_group_context(), name)
            assert command is not None  # noqa: S101  # the name is from the table of commands
            yield f"skillwire-{name}", _page(f"skillwire-{name}", summary.rstrip("."), _about(name, command))


def _page(name: str, summary: str, body: list[str]) -> str:
    tail = [
        *_list("EXIT STATUS", [(code, _bare(meaning)) for code, meaning in exit_code_rows()]),
        *_list("ENVIRONMENT", [*_VARIABLES, *((row.environment, _sentence(row.meaning)) for row in SETTINGS.values())]),
        *_list("FILES", _FILES),
        *_examples(name),
        *_see_also(name),
    ]
    lines = [".SH NAME", f"{_text(name)} \\- {_text(summary)}", *body, *tail]
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    date = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    return f'.TH {name.upper()} 1 "{date}" "skillwire {VERSION}" "User Commands"\n' + "\n".join(lines) + "\n"


def exit_code_rows() -> list[tuple[str, str]]:
    """Return each exit code and its meanings."""
    found = "A comparison found something: `check` an error, `outdated` a change, `doctor` a problem."
    rows = [
        (0, "It worked."),
        (1, found),
        *((kind.exit_code, f"`{kind.__name__}`: {_summary(kind)}") for kind in errors.SkillwireError.__subclasses__()),
        (errors.SkillwireError("INTERNAL", "").exit_code, "A defect of skillwire itself. Please report it."),
        (command_line.EXIT_INTERRUPTED, "Interrupted from the keyboard; what was begun was undone."),
    ]
    meanings: dict[int, list[str]] = {}
    for number, meaning in rows:
        meanings.setdefault(number, []).append(meaning)
    table = [(str(number), "<br>".join(meanings[number])) for number in sorted(meanings)]
    signals = f"Ended by signal N, such as {command_line.EXIT_SIGNAL + 15} by SIGTERM; what was begun was undone."
    return [*table, (f"{command_line.EXIT_SIGNAL} + N", signals)]


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _group_context() -> click.Context:
    return command_line.cli.make_context("skillwire", [], resilient_parsing=True)


def _overview() -> list[str]:
    context = _group_context()
    lines = [".SH SYNOPSIS", ".B skillwire", "[OPTIONS] COMMAND [ARGS]...", ".SH DESCRIPTION"]
    lines += _paragraphs(command_line.cli.help or "")
    for section, commands in command_line.GROUPS.items():
        lines.append(f".SS {_text(section)}")
        for name, summary in commands.items():
            lines += [".TP", f".BR skillwire\\-{_text(name)} (1)", _text(summary)]
    return [*lines, *_options(command_line.cli, context)]


def _about(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=name, parent=_group_context())
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [".SH SYNOPSIS", f".B skillwire {name}", _text(pieces), ".SH DESCRIPTION", *_paragraphs(command.help or "")]
    return [*lines, *_options(command, context), *_about_below(f"skillwire {name}", command, context)]


def _about_below(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of each command below a group."""
    for part in command.commands.values() if isinstance(command, click.Group) else ():
        below = click.Context(part, info_name=part.name, parent=context)
        if isinstance(part, click.Group):
            yield from _about_below(f"{name} {part.name}", part, below)
            continue
        pieces = " ".join(part.collect_usage_pieces(below))
        yield from (f".SS {name} {part.name} {_text(pieces)}", *_paragraphs(part.help or ""))
        yield from _options(part, below)[1:]


def _options(command: click.Command, context: click.Context) -> list[str]:
    lines = [".SH OPTIONS"]
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) and not option.hidden else None
        if record is not None:
            lines += [".TP", f"\\fB{_text(record[0])}\\fR", *_wrapped(record[1])]
    return lines


def _list(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = [f".SH {title}"]
    for name, meaning in rows:
        lines += [".TP", f"\\fB{_text(name)}\\fR", *_wrapped(meaning)]
    return lines


def _examples(name: str) -> list[str]:
    """Return the examples of a command; its overview has none."""
    lines = examples_of(name.replace("-", " ", 1)) if name != "skillwire" else []
    return [".SH EXAMPLES", ".nf", ".RS 4", *map(_text, lines), ".RE", ".fi"] if lines else []


def _see_also(name: str) -> list[str]:
    others = ["skillwire", *(f"skillwire-{other}" for section in command_line.GROUPS.values() for other in section)]
    names = [other for other in others if other != name]
    return [".SH SEE ALSO", *(f".BR {_text(other)} (1){',' if other != names[-1] else ''}" for other in names)]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if not paragraph.strip():
            continue
        as_it_is = paragraph.startswith("\b")
        kept = [".nf", *(_text(line) for line in paragraph.removeprefix("\b\n").split("\n")), ".fi"]
        lines += [".PP", *(kept if as_it_is else _wrapped(paragraph))]
    return lines[1:] if lines else []


def _wrapped(text: str) -> list[str]:
    words, lines = text.split(), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return [_text(line) for line in lines]


def _text(text: str) -> str:
    """Return ``text`` such that roff shows it as it is."""
    shown = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    )
    shown = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in shown.rstrip())
    return f"\\&{shown}" if shown.startswith((".", "'")) else shown


def _bare(markdown: str) -> str:
    """Return a paragraph of Markdown without its marks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown.replace("<br>", " "))
    return text.replace("`", "").replace("**", "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    for path in write_pages(Path(sys.argv[1])):
        print(path)
