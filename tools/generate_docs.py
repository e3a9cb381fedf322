"""Write the parts of the documentation that follow from the code.

A page is prose with generated blocks between markers::

    <!-- generated: usage -->
    ...
    <!-- end of generated -->

Only what stands between the markers is replaced. A command without a page gets one with its title and its
block; the prose around it is for people to write. The other way round, what ``skillwire explain`` shows of the
pages (the sections of the codes, the examples of the lint rules) is written into the package, where no page is.
``--check`` writes nothing and fails when a page is stale.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from man_pages import man_pages
from skillwire import codes, errors, limits
from skillwire.cli import main as command_line
from skillwire.cli.documents import names as document_names
from skillwire.cli.documents import schema_of
from skillwire.folder import rules
from skillwire.protocols.skill_discovery import configured_keys as discovery
from skillwire.resolver.agents import AGENTS
from skillwire.resolver.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SHARED: Final = frozenset({"error", "findings"})  # fields whose own fields the page tells once, under error/1
EXPLANATIONS: Final = Path(command_line.__file__).with_name("explanations.json")
REFERENCE: Final = Path(__file__).parent.parent / "docs" / "reference"
PROTOCOL: Final = REFERENCE / "protocols" / "agent-skills.md"
SHARING: Final = REFERENCE / "protocols" / "skill-sharing.md"
SKILLS_RPC: Final = REFERENCE / "protocols" / "skills-rpc.md"
SKILL_DISCOVERY: Final = REFERENCE / "protocols" / "skill-discovery.md"
CLAUSES: Final = Path(codes.__file__).parent / "protocols" / "agent_skills" / "SPEC.md"
_BLOCK: Final = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def main() -> int:
    """Write the stale pages, or, with ``--check``, name them; return the exit code."""
    check = "--check" in sys.argv[1:]
    stale = [(page, text) for page, text in generated_pages() if not page.exists() or page.read_text() != text]
    for page, text in stale:
        print("stale:" if check else "written:", page.relative_to(REFERENCE.parent.parent))
        if not check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
    if check and stale:
        print("fix: ./dev docs")
        return 1
    return 0


def generated_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with generated blocks, and the text it should have."""
    yield _filled(REFERENCE / "codes.md", "Error codes", {"codes": error_codes()})
    yield _filled(REFERENCE / "exit-codes.md", "Exit codes", {"exit-codes": exit_codes()})
    yield _filled(REFERENCE / "limits.md", "Limits", {"limits": bounds()})
    yield _filled(REFERENCE / "settings.md", "Settings", {"settings": settings()})
    yield _filled(REFERENCE / "agents.md", "Agents", {"agents": agents()})
    yield EXPLANATIONS, explanations()
    yield _filled(
        PROTOCOL, "Agent Skills Discovery", {"publisher": clauses("Publisher"), "consumer": clauses("Consumer")}
    )
    yield _filled(SHARING, "Skill Sharing", {"clauses": clauses_by_section("skill_sharing")})
    yield _filled(SKILLS_RPC, "Skills Protocol", {"clauses": clauses_by_section("skills_rpc")})
    yield _filled(SKILL_DISCOVERY, "Skill Discovery", {"clauses": clauses_by_section("skill_discovery")})
    yield _filled(REFERENCE / "lan-configuration.md", "The network's configuration", {"keys": discovery_keys()})
    yield _filled(REFERENCE / "commands" / "index.md", "Commands", {"commands": list_of_commands()})
    for name in (name for section in command_line.SECTIONS.values() for name in section):
        command = importlib.import_module(f"skillwire.cli.{name}").command
        page = REFERENCE / "commands" / f"{name}.md"
        yield _filled(page, f"skillwire {name}", {"usage": usage(f"skillwire {name}", command)})

    yield _filled(REFERENCE / "json.md", "JSON documents", {"documents": documents()})
    for name in document_names():
        yield REFERENCE / "schemas" / f"{name.replace('/', '-')}.json", json.dumps(schema_of(name), indent=2) + "\n"
    yield from man_pages(exit_code_rows())


def documents() -> str:
    """Return every JSON document: what it is, and its fields."""
    parts = []
    for name in document_names():
        schema = schema_of(name)
        link = f"[Its schema](schemas/{name.replace('/', '-')}.json)."
        parts += [f"## {name}", f"{schema['description']} {link}"]
        for variant in schema.get("oneOf", [schema]):
            rows = ((f"`{path}`", kind, meaning) for path, kind, meaning in _fields(variant) if path != "schema")
            parts.append(_table(("field", "type", "meaning"), rows))
    return "\n\n".join(parts)


def _fields(schema: dict[str, Any], before: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield path, type and meaning of each field, those of objects below it included."""
    for name, field in schema.get("properties", {}).items():
        inner = field["anyOf"][0] if "anyOf" in field else field
        path = before + name
        yield path, _kind(inner), field.get("description", "")
        if path in _SHARED and schema.get("title") not in {"skillwire/error/1", "skillwire/check/1"}:
            continue
        below = inner.get("items", inner)
        yield from _fields(below, f"{path}[]." if "items" in inner else f"{path}.")


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {schema.get('items', {}).get('type', 'any')}"
    return str(schema.get("type", "any"))


def _filled(page: Path, title: str, blocks: dict[str, str]) -> tuple[Path, str]:
    empty = "".join(f"\n<!-- generated: {name} -->\n<!-- end of generated -->\n" for name in blocks)
    text = page.read_text() if page.exists() else f"# {title}\n{empty}"
    found = {match["name"] for match in _BLOCK.finditer(text)}
    if found != blocks.keys():
        raise SystemExit(f"{page} has the generated blocks {sorted(found)}, expected {sorted(blocks)}")
    return page, _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match['name']]}\n\n{match[3]}", text)


def explanations() -> str:
    """Return, as JSON, the section that each code stands in and an example of what each lint rule finds."""
    sections: dict[str, str] = {}
    for module in (codes, rules):
        title = ""
        source = Path(str(module.__file__)).read_text()
        for section, code in re.findall(r"^    (?:# --- (.+?) -*$|\"([A-Z_0-9]+)\": \w+\()", source, re.MULTILINE):
            title = section or title
            if code:
                sections[code] = title
    examples: dict[str, str] = {}
    for part in re.split(r"^### ", (REFERENCE / "lint-rules.md").read_text(), flags=re.MULTILINE)[1:]:
        if block := re.search(r"^```\w*\n(.*?)\n```$", part, re.MULTILINE | re.DOTALL):
            examples[part.partition("\n")[0]] = block[1]
    return json.dumps({"sections": sections, "examples": examples}, indent=2) + "\n"


def error_codes() -> str:
    """Return every error code under the section of ``codes.py`` that it stands in."""
    source = Path(codes.__file__).read_text()
    parts = []
    for title, name in re.findall(r"^    (?:# --- (.+?) -*$|\"([A-Z_0-9]+)\": CodeInfo\()", source, re.MULTILINE):
        parts += [f"## {title[0].upper()}{title[1:]}"] if title else _error_code(name)
    return "\n\n".join(parts)


def _error_code(name: str) -> list[str]:
    row = codes.CODES[name]
    facts = [f"- **Usual cause:** {row.cause}", f"- **Fix:** {row.fix}"]
    facts += [f"- **Exit code:** {row.exit_code}"] if row.exit_code is not None else []
    facts += ["- Trying again, unchanged, can help."] if row.retryable else []
    return [f"### {name}", f"{row.summary}.", "\n".join(facts)]


def clauses(side: str) -> str:
    """Return the rows of the protocol's SPEC.md for ``side``, what is ours in bold."""
    _, _, section = CLAUSES.read_text().partition(f"\n## {side}\n")
    rows = re.findall(r"^\| (ASD-[\w-]+) \| (.+?) \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return _table(
        ("clause", "section of the text", "what holds"),
        ((f"`{name}`", "**ours**" if where == "[ours]" else where, text) for name, where, text in rows),
    )


def clauses_by_section(protocol: str) -> str:
    """Return every row of a protocol's SPEC.md under its section, what is ours in bold."""
    text = (CLAUSES.parents[1] / protocol / "SPEC.md").read_text()
    parts = []
    for section in text.split("\n## ")[1:]:
        rows = re.findall(r"^\| ((?:SS[PB]|SKP|RPC|SDP)-[\w-]+) \| (.+?) \| (.+) \|$", section, re.MULTILINE)
        told = [(f"`{name}`", where, what) for name, where, what in rows]
        if not told:
            continue
        parts += [f"### {section.partition(chr(10))[0]}"]
        parts.append(_table(("clause", "section of the text", "what holds"), told).replace("[ours]", "**ours**"))
    return "\n\n".join(parts).replace("****ours****", "**ours**")


def exit_codes() -> str:
    """Return what each exit code of the command line means."""
    return _table(("exit code", "meaning"), exit_code_rows())


def exit_code_rows() -> list[tuple[str, str]]:
    """Return each exit code and its meanings."""
    found = "A comparison found something: `check` an error, `outdated` a change, `doctor` a problem."
    rows = [
        (0, "It worked."),
        (1, found),
        *((kind.exit_code, f"`{kind.__name__}`: {_summary(kind)}") for kind in errors.SkillwireError.__subclasses__()),
        (command_line.EXIT_INTERNAL, "A defect of skillwire itself. Please report it."),
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


def bounds() -> str:
    """Return every bound under the section of ``limits.py`` that it stands in."""
    source = Path(limits.__file__).read_text()
    parts: list[str] = []
    rows: list[tuple[str, ...]] = []
    for title, name in re.findall(r"^(?:# --- (.+?) -*$|([A-Z0-9_]+) = \w+\()", source, re.MULTILINE):
        if title:
            parts += _bounds_table(rows)
            rows = []
            parts.append(f"## {title[0].upper()}{title[1:]}")
        else:
            bound = getattr(limits, name)
            rows.append((f"`{name}`", f"{bound:,} {bound.unit}", bound.reason, bound.clause))
    return "\n\n".join(parts + _bounds_table(rows))


def _bounds_table(rows: list[tuple[str, ...]]) -> list[str]:
    return [_table(("bound", "value", "why", "from"), rows)] if rows else []


def settings() -> str:
    """Return every setting: key, environment variable, default, meaning."""
    head = ("setting", "environment variable", "in a project's file", "default", "what it is for")
    return _table(
        head,
        (
            (f"`{key}`", f"`{row.environment}`", "yes" if row.in_project else "no", _default(row.default), row.meaning)
            for key, row in SETTINGS.items()
        ),
    )


def discovery_keys() -> str:
    """Return every key below ``discovery``, under the table that it stands in."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for path, key in discovery.KEYS.items():
        table, _, name = path.rpartition(".")
        tables.setdefault(table, []).append((f"`{name}`", key.meaning))
    titles = {table: f"`discovery.{table}`" if table else "`discovery`" for table in tables}
    return "\n\n".join(f"### {titles[table]}\n\n{_table(('key', 'meaning'), rows)}" for table, rows in tables.items())


def _default(value: object) -> str:
    if value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def agents() -> str:
    """Return every agent and its folders."""
    head = ("`--agent`", "agent", "folder in a project", "folder with `--global`")
    return _table(
        head,
        ((f"`{name}`", row.title, f"`{row.project}`", f"`~/{row.home}`") for name, row in AGENTS.items()),
    )


def list_of_commands() -> str:
    """Return every command with its line of help, and the options that stand before a command."""
    parts = []
    for section, commands in command_line.SECTIONS.items():
        rows = ((f"[`skillwire {name}`]({name}.md)", line) for name, line in commands.items())
        parts += [f"## {section}", _table(("command", "what it does"), rows)]
    return "\n\n".join([*parts, "## Options before the command", _options(command_line.cli)])


def usage(name: str, command: click.Command) -> str:
    """Return a command's help, usage, arguments and options."""
    context = _context(command)
    pieces = " ".join(command.collect_usage_pieces(context))
    parts = [_flowing(command.help or ""), f"```text\n{name} {pieces}\n```"]
    arguments = [item for item in command.get_params(context) if isinstance(item, click.Argument)]
    if described := [item for item in arguments if item.help]:
        rows = ((f"`{item.make_metavar(context)}`", _flowing(item.help or "")) for item in described)
        parts.append(_table(("argument", "what it is"), rows))
    parts.append(_options(command))
    return "\n\n".join(parts)


def _context(command: click.Command) -> click.Context:
    """Return a context in which ``command`` has the options that it has under the group."""
    return click.Context(command, parent=command_line.cli.make_context("skillwire", [], resilient_parsing=True))


def _options(command: click.Command) -> str:
    context = _context(command)
    options = [item for item in command.get_params(context) if isinstance(item, click.Option) and not item.hidden]
    return _table(("option", "what it does"), (_option(item, context) for item in options))


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    value = "" if option.is_flag or option.count else f" {_value(option, context)}"
    names = ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])
    notes = [_flowing(option.help or "")]
    if isinstance(option.type, click.Choice):
        notes.append("One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + ".")
    if option.show_default and option.default is not None:
        notes.append(f"Default: `{option.default}`.")
    if option.multiple:
        notes.append("May be given several times.")
    if option.envvar:
        notes.append(f"Environment: `{option.envvar}`.")
    return names, " ".join(notes)


def _value(option: click.Option, context: click.Context) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "CHOICE"
    return option.make_metavar(context).removesuffix(" RANGE")


def _flowing(text: str) -> str:
    """Return help text with each paragraph on one line; one that click is told to leave alone keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        "```text" + part.removeprefix("\b").rstrip() + "\n```" if part.startswith("\b") else " ".join(part.split())
        for part in paragraphs
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
