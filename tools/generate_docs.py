"""Write the parts of the documentation that follow from the code.

A page is prose with generated blocks between markers::

    <!-- generated: usage -->
    ...
    <!-- end of generated -->

Only the text between the markers is replaced; people write the rest. ``skillwire explain`` shows the sections of the
codes and the examples of the lint rules, so these are written into the package. ``--check`` changes none of these pages
and fails when one is stale.

The built pages repeat other sources: agents, codes, lint rules and exit codes, the clauses of each protocol's SPEC.md,
the docstrings of the public names, and the licences of installed packages. In ``docs`` a few words stand for each,
which name its source. The site is made from ``build/docs``, a copy of ``docs`` with the built pages, which each run
makes, ``--check`` included.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

import licences
from api_reference import api_reference
from man_pages import exit_code_rows
from shown_limits import SHOWN
from skillwire import codes, limits
from skillwire.cli import main as command_line
from skillwire.cli.explain import document_names, schema_of
from skillwire.folder import rules
from skillwire.folder.schemas import SCHEMAS, schema_file
from skillwire.protocols.skill_discovery import settings as discovery
from skillwire.resolver.agents import AGENTS
from skillwire.resolver.settings import SETTINGS
from skillwire.server import configuration_keys, create_app, openapi
from skillwire.server.prometheus import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import Any

#: The pages of the commands: file name, title, commands.
COMMAND_PAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "write": ("Write and check skills", ("init", "check", "validate", "build")),
    "serve": ("Serve skills", ("serve", "share", "worker")),
    "registry": ("Publish to a registry", ("publish", "yank", "deprecate", "registry")),
    "runtimes": ("Serve agent runtimes and marketplaces", ("mcp", "rpc", "marketplace")),
    "access": ("Grants and tokens", ("grant", "token")),
    "inbox": ("Tasks for people", ("inbox",)),
    "find": ("Find and read skills", ("find", "show", "cat", "which")),
    "install": ("Install skills", ("add", "list", "remove", "update", "outdated", "diff", "verify")),
    "origins": ("Logins and trust", ("auth", "trust")),
    "call": ("Call skills", ("call", "executions", "top")),
    "lan": ("The local network", ("lan", "scene")),
    "dht": ("The DHT", ("dht",)),
    "certificates": ("Certificates of the local network", ("ca", "key")),
    "help": ("Diagnose and set up", ("doctor", "explain", "config", "completion")),
}
#: Options that mean the same in every command that has them; pages name them and explain them once.
COMMON_OPTIONS: Final = (
    "--json", "--quiet", "--help", "--dry-run", "--global", "--token", "--offline", "--refresh", "--timeout", "--store",
    "--discovery", "--unverified", "--publisher", "--log-format",
)  # fmt: skip
#: Options that the commands of every group have, and those of one group; the page of commands, and that of the group,
#: explain them once.
OPTIONS_OF_ALL: Final = ("--json", "--quiet", "--help")
OPTIONS_OF_GROUP: Final = {
    "registry": ("--registry",),
    "inbox": ("--as", "--store"),
    "dht": ("--bootstrap", "--discovery"),
}
EXPLANATIONS: Final = Path(command_line.__file__).with_name("explanations.json")
RULE_EXAMPLES: Final = Path(__file__).with_name("rule_examples.md")
PROJECT: Final = Path(__file__).parent.parent
DOCS: Final = PROJECT / "docs"
REFERENCE: Final = DOCS / "reference"
SITE_SOURCE: Final = PROJECT / "build" / "docs"
PROTOCOLS: Final = {
    "agent_skills": "Agent Skills Discovery",
    "skill_sharing": "Skill Sharing",
    "skills_rpc": "Skills Protocol",
    "skill_discovery": "Skill Discovery",
}
_ABOUT_CODES: Final = """\
Every error has a stable code, which scripts may compare. Messages, and the JSON document of an error, carry the code,
what happened, the place, the usual cause and a fix. [`skillwire explain CODE`](commands/help.md#skillwire-explain)
prints these texts offline. The exit code is 1 unless the text names another; servers and findings have none."""
_ABOUT_AGENTS: Final = """\
The names for `--agent` and the setting `agents`, and their folders. Agents with the project folder `.agents/skills`
share one copy. `--agent '*'` means every agent with a hidden folder, and others that are in use here: OpenClaw's plain
`skills` folder counts only beside `.openclaw`, or with `--agent openclaw`. Each line names the folder in a project and
the folder with `--global`."""
_ABOUT_EXITS: Final = """\
The names are classes of `skillwire.errors`, which the SDK raises. Each [error code](codes.md) has its exit code;
`skillwire explain CODE` prints it. With `--json`, standard output holds one document in any case: the result, or the
error as `skillwire/error/1`. A command whose reader stops, such as `head`, exits with 0."""
_ABOUT_RULES: Final = """\
What `skillwire check` finds, and what `build` and `serve` find before publishing. **error/warning** is the level for
what is published (*strict*), then for what is imported (*lenient*: `check --level lenient`, `add` from a folder); `–`:
not applied. Only errors stop publishing or loading. Unreadable input (no frontmatter, broken TOML, a path that leads
out) is an [error code](codes.md) at both."""  # noqa: RUF001  # the dash of a table
#: Every option of these commands has a variable, as the page of the server's configuration says.
_OF_SERVERS: Final = ("SKILLWIRE_SERVE_", "SKILLWIRE_WORKER_")
_BLOCK: Final = re.compile(r"(<!-- generated: (?P<name>[\w. -]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def main() -> int:
    """Write the stale pages, or, with ``--check``, name them; return the exit code."""
    check = "--check" in sys.argv[1:]
    stale = [(page, text) for page, text in generated_pages() if not page.exists() or page.read_text() != text]
    for page, text in stale:
        print("stale:" if check else "written:", page.relative_to(PROJECT))
        if not check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)
    shutil.rmtree(SITE_SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SITE_SOURCE)
    for page, text in built_pages():
        SITE_SOURCE.joinpath(page.relative_to(DOCS)).write_text(text)
    if check and stale:
        print("fix: ./dev docs")
        return 1
    return 0


def generated_pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with generated blocks, and the text it should have."""
    yield _filled(REFERENCE / "limits.md", "Limits", {"limits": bounds()})
    yield _filled(REFERENCE / "settings.md", "Settings", {"settings": settings()})
    yield EXPLANATIONS, explanations()
    tables = {f"keys of {table}": _list_of_keys(keys) for table, keys in configuration_keys.TABLES.items() if keys}
    tables["keys of serve"] = serve_keys()
    yield _filled(REFERENCE / "server-configuration.md", "The server's configuration", tables)
    yield _filled(REFERENCE / "lan-configuration.md", "The network's configuration", {"keys": discovery_keys()})
    yield _filled(REFERENCE / "commands" / "index.md", "Commands", {"commands": list_of_commands()})
    for file, (title, names) in COMMAND_PAGES.items():
        blocks = {f"usage {name}": usage(name) for name in names}
        yield _filled(REFERENCE / "commands" / f"{file}.md", title, blocks)
    yield _filled(REFERENCE / "http.md", "The server over HTTP", {"routes": list_of_routes(), "metrics": metrics()})
    routes = {"routes": list_of_routes(of_registry=True)}
    yield _filled(REFERENCE / "registry-api.md", "The registry over HTTP", routes)
    yield _filled(REFERENCE / "json.md", "JSON documents", {"documents": documents()})
    for name in document_names():
        yield REFERENCE / "schemas" / f"{name.replace('/', '-')}.json", json.dumps(schema_of(name), indent=2) + "\n"
    for name, schema in SCHEMAS.items():
        yield REFERENCE / "schemas" / schema_file(name), json.dumps(schema, indent=2) + "\n"
    tables = {
        f"fields of {name}": _table(("field", "what it is"), field_rows(schema)) for name, schema in SCHEMAS.items()
    }
    yield _filled(REFERENCE / "skill-folder.md", "The skill folder", tables)


def built_pages() -> Iterator[tuple[Path, str]]:
    """Yield the place in ``docs`` of each page that is not committed, and its text."""
    yield REFERENCE / "agents.md", agents()
    yield REFERENCE / "api.md", api_reference()
    yield REFERENCE / "codes.md", error_codes()
    yield REFERENCE / "exit-codes.md", exit_codes()
    yield REFERENCE / "lint-rules.md", lint_rules()
    yield REFERENCE / "protocols" / "clauses.md", all_clauses()
    yield licences.PAGE, licences.page()


def field_rows(schema: dict[str, Any], table: str = "") -> Iterator[tuple[str, str]]:
    """Yield a row for each field of a schema and of its tables; ``table`` is the label of the table."""
    for name, field in schema["properties"].items():
        inner = [one for one in (field, *field.get("anyOf", ())) if "properties" in one]
        values = field.get("additionalProperties") or {}
        if inner and not table:
            for one in inner:
                yield from field_rows(one, f"`[{name}]` ")
        elif "properties" in values:
            yield from field_rows(values, f"`[{name}.NAME]` ")
        else:
            is_table = field.get("type") == "object" and not values and not table
            choice = ", ".join(
                f"`{value}`" for value in field.get("enum", [field["const"]] if "const" in field else ())
            )
            meaning = f"{choice}. {field['description']}" if choice else field["description"]
            yield f"{table}`[{name}]`" if is_table else f"{table}`{name}`", meaning


def documents() -> str:
    """Return every JSON document with a link to its schema."""
    rows = (
        (name, f"schemas/{name.replace('/', '-')}.json", schema_of(name)["description"]) for name in document_names()
    )
    return "\n".join(f"- [{name}]({schema}): {meaning}" for name, schema, meaning in rows)


def _filled(page: Path, title: str, blocks: dict[str, str]) -> tuple[Path, str]:
    empty = "".join(f"\n<!-- generated: {name} -->\n<!-- end of generated -->\n" for name in blocks)
    text = page.read_text() if page.exists() else f"# {title}\n{empty}"
    found = {match["name"] for match in _BLOCK.finditer(text)}
    if found != blocks.keys():
        raise SystemExit(f"{page} has the generated blocks {sorted(found)}, expected {sorted(blocks)}")
    return page, _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match['name']]}\n\n{match[3]}", text)


def list_of_routes(*, of_registry: bool = False) -> str:
    """Return the server's routes as OpenAPI describes it, without the paths that repeat those of Agent Skills.

    With ``of_registry``, the rows that only a registry has, without its pages and the APIs of other registries.
    """
    names = {
        "{file}": "PATH",
        "{archive}": "ARCHIVE",
        "{artifact}": "ARTIFACT",
        "{blob}": "ID",
        "{execution}": "ID",
        "{namespace}": "NAMESPACE" if of_registry else "PUBLISHER",
        **{f"{{{name}}}": name.upper() for name in ("version", "account", "token", "upload", "ticket")},
    }
    rows = []
    without = openapi.document(create_app([]).routes)["paths"]
    paths = openapi.document(create_app([], registry=True).routes)["paths"] if of_registry else without
    for path, described in paths.items():
        methods = [method for method in ("get", "post", "put", "patch", "delete") if method in described]
        shown = re.sub(r"\{\w+\}", lambda found: names.get(found[0], "NAME"), path)
        repeats = path.startswith(("/@{scope}", "/.well-known/skills/", "/api/v1/", "/v1/"))
        if not repeats and not (of_registry and (path in without or described[methods[0]]["tags"] == ["Pages"])):
            summaries = {method: described[method]["summary"] for method in methods}
            for summary, alike in groupby(methods, summaries.__getitem__):
                rows.append(f"- `{', '.join(alike).upper()} {shown}`: {summary}")
    return "\n".join(rows)


def lint_rules() -> str:
    """Return every lint rule under its section of ``rules.py``, with its example."""
    examples = _examples_of_rules()
    parts = ["# Lint rules", _ABOUT_RULES]
    for title, name in _sections_and_rows(rules, "Rule"):
        if title:
            parts.append(f"## {title[0].upper()}{title[1:]}")
            continue
        rule = rules.RULES[name]
        levels = f"**{rule.level_strict or '–'}/{rule.level_lenient or '–'}**."  # noqa: RUF001  # the dash of a table
        parts += [f"### {name}", f"{rule.summary}. {levels} {rule.cause} **Fix:** {rule.fix}", examples[name]]
    return "\n\n".join(parts)


def _examples_of_rules() -> dict[str, str]:
    """Return the fenced example of each rule."""
    found = dict(re.findall(r"^### (\w+)\n\n(^```\w+\n.*?^```$)", RULE_EXAMPLES.read_text(), re.MULTILINE | re.DOTALL))
    if missing := rules.RULES.keys() - found:
        raise SystemExit(f"{RULE_EXAMPLES} has no example of {', '.join(sorted(missing))}")
    return found


def _sections_and_rows(module: ModuleType, kind: str) -> list[tuple[str, str]]:
    """Return the comments that head sections (as first items) and the names of rows (as second ones) of a table."""
    source = Path(str(module.__file__)).read_text()
    return re.findall(rf"^    (?:# --- (.+?) -*$|\"([A-Z_0-9]+)\": {kind}\()", source, re.MULTILINE)


def explanations() -> str:
    """Return, as JSON, the section of each code and an example for each lint rule."""
    sections: dict[str, str] = {}
    for module in (codes, rules):
        title = ""
        for section, code in _sections_and_rows(module, r"\w+"):
            title = section or title
            if code:
                sections[code] = title
    examples = {name: "\n".join(block.split("\n")[1:-1]) for name, block in _examples_of_rules().items()}
    return json.dumps({"sections": sections, "examples": examples}, indent=2) + "\n"


def error_codes() -> str:
    """Return every error code under its section of ``codes.py``."""
    parts = ["# Error codes", _ABOUT_CODES]
    for title, name in _sections_and_rows(codes, "CodeInfo"):
        parts += [f"## {title[0].upper()}{title[1:]}"] if title else _error_code(name)
    return "\n\n".join(parts)


def _error_code(name: str) -> list[str]:
    row = codes.CODES[name]
    ending = [f"**In Python:** `{codes.PYTHON_FIXES[name]}`."] if name in codes.PYTHON_FIXES else []
    ending += [f"Exit code {row.exit_code}."] if row.exit_code not in {None, 1} else []
    ending += ["Retryable."] if row.retryable else []
    return [f"### {name}", " ".join([f"{row.summary}.", row.cause, f"**Fix:** {row.fix}", *ending])]


def all_clauses() -> str:
    """Return the clauses of every protocol's SPEC.md, by section."""
    parts = [
        "# Clauses of the protocols",
        "Each clause that skillwire implements, as its tests name it (`@pytest.mark.spec`). *Ours* marks an extension.",
    ]
    for protocol, title in PROTOCOLS.items():
        text = (Path(codes.__file__).parent / "protocols" / protocol / "SPEC.md").read_text()
        parts.append(f"## {title}")
        for section in text.split("\n## ")[1:]:
            heading, _, body = section.partition("\n")
            rows = re.findall(r"^\| ((?:ASD|SS[PB]|SKP|RPC|SDP)-[\w-]+) \| (.+?) \| (.+) \|$", body, re.MULTILINE)
            shown = ((f"`{name}`", where.replace("[ours]", "ours"), text) for name, where, text in rows)
            parts += [f"### {heading}", _table(("clause", "section", "rule"), shown) if rows else body.strip()]
    return "\n\n".join(parts) + "\n"


def exit_codes() -> str:
    """Return what each exit code of the command line means."""
    return f"# Exit codes\n\n{_ABOUT_EXITS}\n\n{_table(('exit code', 'meaning'), exit_code_rows())}\n"


def metrics() -> str:
    """Return the metrics of ``/metrics``, with the suffix that a counter gets."""
    rows = []
    for name, family in METRICS.items():
        shown = f"`skillwire_{name}{'_total' if family.kind is CounterMetricFamily else ''}`"
        kind = "histogram: " if family.kind is HistogramMetricFamily else ""
        labels = f" ({', '.join(f'`{label}`' for label in family.labels)})" if family.labels else ""
        rows.append(f"- {shown}{labels}: {kind}{family.text.rstrip('.')}")
    return "\n".join(rows)


def bounds() -> str:
    """Return the limits that a user can meet, by section."""
    parts = []
    for title, rows in SHOWN.items():
        parts += [
            f"## {title}",
            "\n".join(f"- {text}: {_amount(getattr(limits, name), text)}" for name, text in rows.items()),
        ]
    return "\n\n".join(parts)


def _amount(bound: limits.Bound, text: str) -> str:
    """Return a bound in its largest whole unit, without one that the text names."""
    sizes = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")) if bound.unit == "bytes" else ()
    times = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")) if bound.unit == "seconds" else ()
    for size, unit in sizes:
        if bound % size == 0:
            return f"{bound // size:,} {unit}"
    for size, unit in times:
        if bound % size == 0:
            return f"{bound // size:,} {unit}{'' if bound == size else 's'}"
    return f"{bound:,}" if re.search(rf"\b{bound.unit}\b", text) else f"{bound:,} {bound.unit}"


def settings() -> str:
    """Return every setting: key, environment variable, meaning, default."""
    rows = []
    for key, row in SETTINGS.items():
        default = f"; `{row.default}` by default" if row.default not in {(), "", False} else ""
        rows.append(f"- `{key}`, `{row.environment}`: {row.meaning}{default}{' (*project*)' if row.in_project else ''}")
    return "\n".join(rows)


def discovery_keys() -> str:
    """Return every key below ``discovery``, under its table."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for path, key in discovery.KEYS.items():
        table, _, name = path.rpartition(".")
        if path.startswith("skillCenter."):
            continue
        tables.setdefault(table, []).append((f"`{name}`", key.description))
    parts = []
    for table, rows in tables.items():
        parts.append(f"### `discovery.{table}`" if table else "### `discovery`")
        parts.append("\n".join(f"- {name}: {meaning}" for name, meaning in rows))
    return "\n\n".join(parts)


def _list_of_keys(keys: Mapping[str, configuration_keys.Key]) -> str:
    return "\n".join(f"- `{key}`: {row.meaning}" for key, row in keys.items())


def serve_keys() -> str:
    """Return the keys of the table ``serve``, each with its option and its environment variable."""
    command = command_line.cli.get_command(_context(command_line.cli), "serve")
    parameters = {item.name: item for item in command.params} if command else {}
    rows = []
    for key, row in configuration_keys.TABLES["serve"].items():
        item = parameters[row.setting or key]
        option = item.opts[0] if isinstance(item, click.Option) else "[FOLDER]..."
        rows.append(f"- `{key}`: `{option}`, `{item.envvar}`")
    return "\n".join(rows)


def agents() -> str:
    """Return every agent and its folders."""
    rows = "\n".join(f"- `{name}`: `{row.project}`, `~/{row.home}`" for name, row in AGENTS.items())
    return f"# Agents\n\n{_ABOUT_AGENTS}\n\n{rows}\n"


def list_of_commands() -> str:
    """Return every command with its line of help, and the options that stand before a command."""
    page_of = {name: file for file, (_, names) in COMMAND_PAGES.items() for name in names}
    parts = []
    for section, commands in command_line.GROUPS.items():
        rows = (
            f"- [`{name}`]({page_of[name]}.md#skillwire-{name}){_names_below(name)}: {line}"
            for name, line in commands.items()
        )
        parts += [f"## {section}", "\n".join(rows)]
    return "\n\n".join([*parts, "## Options before the command", _options(command_line.cli, ("--help",))])


def _names_below(name: str) -> str:
    """Return the names of the commands below a group; empty for a command."""
    command = command_line.cli.get_command(_context(command_line.cli), name)
    return f" {', '.join(f'`{one}`' for one in command.commands)}" if isinstance(command, click.Group) else ""


def usage(name: str) -> str:
    """Return a command's help, usage, arguments and options, and those of the commands below it."""
    command = command_line.cli.get_command(_context(command_line.cli), name)
    if command is None:
        raise SystemExit(f"COMMAND_PAGES names a command that does not exist: {name}")
    usage_line = _synopsis(f"skillwire {name}", command)
    parts = [
        f"```text\n{usage_line}\n```",
        *_described(command, COMMON_OPTIONS),
        *_usage_below(name, command, OPTIONS_OF_GROUP.get(name, ())),
    ]
    return "\n\n".join(part for part in parts if part)


def _usage_below(name: str, command: click.Command, explained: tuple[str, ...]) -> Iterator[str]:
    """Yield the usage, help, arguments and options of each command below a group."""
    for part, inner in command.commands.items() if isinstance(command, click.Group) else ():
        if isinstance(inner, click.Group):
            yield from _usage_below(f"{name} {part}", inner, explained)
            continue
        line, *rest = _described(inner, (*COMMON_OPTIONS, *explained), (*OPTIONS_OF_ALL, *explained))
        shown = _synopsis(f"skillwire {name} {part}", inner).replace(" [OPTIONS]", "")
        yield from (f"**`{shown}`**: {line}", *rest)


def _synopsis(name: str, command: click.Command) -> str:
    return f"{name} {' '.join(command.collect_usage_pieces(_context(command)))}"


def _described(command: click.Command, common: tuple[str, ...], unnamed: tuple[str, ...] = ()) -> list[str]:
    """Return help, arguments and options of a command."""
    arguments = [item for item in command.get_params(_context(command)) if isinstance(item, click.Argument)]
    rows = (
        f"- `{item.make_metavar(_context(command))}`: {_flowing(item.help or '')}" for item in arguments if item.help
    )
    options = _options(command, common, unnamed)
    return [_flowing(command.help or ""), "\n".join(rows), options]


def _context(command: click.Command) -> click.Context:
    """Return a context in which ``command`` has the options that it has under the group."""
    return click.Context(command, parent=command_line.cli.make_context("skillwire", [], resilient_parsing=True))


def _options(command: click.Command, common: tuple[str, ...], unnamed: tuple[str, ...] = ()) -> str:
    """Return the options as a list; those of ``common`` by name alone, and those of ``unnamed`` not at all."""
    context = _context(command)
    options = [item for item in command.get_params(context) if isinstance(item, click.Option) and not item.hidden]
    lines = [_option(item, context) for item in options if not set(item.opts) & set(common)]
    named = [f"`{name}`" for item in options for name in item.opts if name in common and name not in unnamed]
    if named:
        lines.append(f"- [common](index.md#options-of-many-commands): {', '.join(named)}")
    return "\n".join(lines)


def _option(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag or option.count else f" {_value(option, context)}"
    names = ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])
    notes = [_flowing(option.help or "")]
    if isinstance(option.type, click.Choice):
        notes.append("One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + ".")
    if option.show_default and option.default is not None:
        notes.append(f"Default: `{option.default}`.")
    if option.multiple and "repeat" not in (option.help or ""):
        notes.append("Repeatable.")
    if option.envvar and not str(option.envvar).startswith(_OF_SERVERS):
        notes.append(f"Environment: `{option.envvar}`.")
    return f"- {names}: {' '.join(notes)}"


def _value(option: click.Option, context: click.Context) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "CHOICE"
    return option.make_metavar(context).removesuffix(" RANGE")


def _flowing(text: str) -> str:
    """Return help text with each paragraph on one line; one that click leaves alone keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        "```text" + part.removeprefix("\b").rstrip() + "\n```"
        if part.startswith("\b")
        else re.sub(r"(?<![\w`-])--[a-z][\w-]*", r"`\g<0>`", " ".join(part.split()))
        for part in paragraphs
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
