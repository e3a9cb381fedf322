"""What can be used is documented: commands, options, settings, environment variables, error codes, limits."""

import ast
import re
from functools import cache
from pathlib import Path
from unittest.mock import create_autospec

import click
import pytest
import yaml
from tests.support.project_tools import load_tool

from skillwire import Client, RemoteSkill, errors, limits
from skillwire.cli.main import GROUPS, cli
from skillwire.codes import CODES, PYTHON_FIXES
from skillwire.folder.rules import RULES
from skillwire.lan import Lan
from skillwire.resolver.settings import SETTINGS

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES_OF_COMMANDS = sorted((DOCS / "reference" / "commands").glob("*.md"))
COMMANDS = [name for section in GROUPS.values() for name in section]
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}


@cache
def _sources():
    return {path: path.read_text() for path in sorted((PROJECT / "src").rglob("*.py"))}


def _context():
    """Return the group's context; a command keeps the help option of the first context that it sees."""
    return cli.make_context("skillwire", [], resilient_parsing=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_section_that_names_each_option_and_shows_an_example(name):
    sections = [part for page in PAGES_OF_COMMANDS for part in page.read_text().split("\n## ")[1:]]
    [page] = [part for part in sections if part.startswith(f"skillwire {name}\n")]
    command = cli.get_command(_context(), name)
    assert command is not None
    context = click.Context(command, parent=_context())
    for parameter in command.get_params(context):
        shown = [parameter.make_metavar(context)] if isinstance(parameter, click.Argument) else parameter.opts
        for spelling in [*shown, *parameter.secondary_opts]:
            assert spelling in page, f"{name} {spelling}"
        assert isinstance(parameter, click.Argument) or parameter.help, f"{name} {parameter.opts} has no help"
    assert re.search(rf"^\$ skillwire {name}\b", page, re.MULTILINE)


def _below(path, command):
    for part, inner in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _below(f"{path} {part}", inner) if isinstance(inner, click.Group) else (f"{path} {part}",)


def test_every_command_below_a_group_is_documented_on_the_pages_and_in_the_man_pages():
    pages = "".join(page.read_text() for page in PAGES_OF_COMMANDS)
    manual = "".join(text for _, text in load_tool("man_pages").man_pages())
    named = [path for name in COMMANDS for path in _below(f"skillwire {name}", cli.get_command(_context(), name))]
    assert "skillwire registry member add" in named
    assert not [path for path in named if not re.search(rf"^\*\*`{path}[ `]", pages, re.MULTILINE)]
    assert not [path for path in named if f".SS {path} " not in manual]


def test_the_list_of_commands_names_those_below_each_group():
    page = (DOCS / "reference" / "commands" / "index.md").read_text()
    assert re.search(r"^- \[`grant`\]\S+ `add`, `list`, `revoke`: ", page, re.MULTILINE)


def test_the_options_before_the_command_are_documented():
    page = (DOCS / "reference" / "commands" / "index.md").read_text()
    assert not [option for parameter in cli.get_params(_context()) for option in parameter.opts if option not in page]


def test_every_setting_is_documented_with_its_environment_variable():
    page = (DOCS / "reference" / "settings.md").read_text()
    for key, row in SETTINGS.items():
        assert f"- `{key}`, `{row.environment}`: " in page


def test_every_environment_variable_that_the_code_reads_is_documented():
    reference = DOCS / "reference"
    page = (reference / "settings.md").read_text() + (reference / "server-configuration.md").read_text()
    page += (reference / "commands" / "serve.md").read_text()
    read = {name for source in _sources().values() for name in re.findall(r"\bSKILLWIRE_[A-Z_]+\b", source)}
    assert {row.environment for row in SETTINGS.values()} <= read
    assert not [name for name in sorted(read) if f"`{name}`" not in page]


def test_every_error_code_is_documented_under_the_anchor_that_errors_print(monkeypatch):
    monkeypatch.setenv("SKILLWIRE_DOCS_URL", "https://docs.example.com")
    page = load_tool("generate_docs").error_codes()
    sections = {re.sub(r"[^\w]+", "-", title).lower() for title in re.findall(r"^## (.+)", page, re.MULTILINE)}
    assert not sections & {code.lower() for code in CODES}
    for code in CODES:
        assert page.count(f"\n### {code}\n") == 1
        documentation = errors.SkillwireError(code, "").diagnostics().documentation
        assert documentation == f"https://docs.example.com/reference/codes.html#{code.lower()}"


def test_limits_that_refuse_callers_are_shown():
    shown = {name for section in load_tool("shown_limits").SHOWN.values() for name in section}
    assert {f"EXECUTION_{name}" for name in ("FOLLOWERS", "FOLLOWERS_CALLER", "WAITING", "WAITING_IN_ALL")} <= shown
    assert "a quarter of one address" in (DOCS / "reference" / "limits.md").read_text()


def test_the_guide_to_the_sdk_says_how_long_an_answer_without_a_change_takes():
    page = (DOCS / "how-to" / "use-the-sdk.md").read_text()
    assert f"`waiting` after up to {limits.CALL_LONG_POLL_SECONDS} s" in page


def test_every_exit_code_is_documented():
    page = load_tool("generate_docs").exit_codes()
    for kind in errors.SkillwireError.__subclasses__():
        assert re.search(rf"^\| {kind.exit_code} \| .*`{kind.__name__}`", page, re.MULTILINE)


def _codes_raised(source):
    """Return the literal codes that errors and findings are made with."""
    return re.findall(rf'\b(?:{"|".join(ERRORS)}|Finding)\((?:\s*|[^()]*\bcode=)"([^"]*)"', source)


def test_every_code_that_is_raised_has_a_row():
    known = CODES.keys() | RULES.keys()
    raised = {code: path.name for path, source in _sources().items() for code in _codes_raised(source)}
    assert len(raised) > 30
    assert not {code: name for code, name in raised.items() if code not in known}


def test_every_row_of_the_codes_is_used():
    sources = (source for path, source in _sources().items() if path.name != "codes.py")
    texts = {code for source in sources for code in re.findall(r'"([A-Z][A-Z0-9_]+)"', source)}
    assert not [code for code in CODES if code not in texts]


def test_the_page_of_licences_has_every_package_under_its_licence():
    tool = load_tool("licences")
    runs, _, rest = tool.page().partition("## What builds and checks")
    rest, _, beside = rest.partition("## What tests run beside")
    needed = tool.needed_to_run()
    rows = [(name, licence, runs if name in needed else rest) for name, licence in tool.python_packages().items()]
    rows += [(name, licence, beside) for name, licence in tool.npm_packages().items()]
    for name, licence, section in rows:
        listed = re.findall(rf"^\| {re.escape(licence)} \| (.+) \|$", section, re.MULTILINE)
        assert any(name in row.split(", ") for row in listed), name


def test_no_package_that_skillwire_runs_on_demands_its_own_licence_of_others():
    tool = load_tool("licences")
    needed = tool.needed_to_run()
    licences = {name: licence for name, licence in tool.python_packages().items() if name in needed}
    assert len(licences) > 10
    assert not {name: licence for name, licence in licences.items() if re.search(r"\b[AL]?GPL|General Public", licence)}


def _in_navigation(item):
    if isinstance(item, str):
        yield item
    for part in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
        yield from _in_navigation(part)


def test_every_page_stands_in_the_navigation_once():
    navigation = list(_in_navigation(yaml.safe_load((PROJECT / "mkdocs.yml").read_text())["nav"]))
    built = {page for page, _ in load_tool("generate_docs").built_pages()}
    pages = {str(page.relative_to(DOCS)) for page in built | set(DOCS.rglob("*.md"))}
    assert pages - set(navigation) == set()
    assert set(navigation) - pages == set()
    assert len(navigation) == len(pages)


def test_one_line_finds_the_program_of_each_way_to_install_it_in_a_checkout():
    pages = [page.read_text() for page in (PROJECT / "README.md", DOCS / "tutorial" / "index.md")]
    lines = [re.findall(r"export PATH=.*", page) for page in pages]
    assert lines == [['export PATH="$PWD/.venv/bin:$HOME/skillwire/bin:$PATH"']] * 2
    assert "python3 -m venv ~/skillwire " in pages[0]


@pytest.mark.parametrize("page", sorted([*PROJECT.glob("*.md"), *DOCS.rglob("*.md")]), ids=str)
def test_every_relative_link_of_a_page_leads_somewhere_in_a_clone(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", prose) + re.findall(r'src(?:set)?="([^"]+)"', prose)
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_the_comparison_names_tests_that_exist():
    named = re.findall(r"`(test_\w+)`", (DOCS / "topics" / "comparison.md").read_text())
    defined = "".join(path.read_text() for path in (PROJECT / "tests" / "interop").glob("*.py"))
    assert len(named) > 4
    assert not [name for name in named if f"def {name}(" not in defined]


def test_every_decision_is_numbered_listed_and_says_how_to_reverse_it():
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    index = (DOCS / "decisions" / "index.md").read_text()
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        assert f"]({record.name})" in index
        text = record.read_text()
        for section in ("Context", "Decision", "Consequences", "How to reverse it"):
            assert f"\n## {section}\n" in text, f"{record.name}: {section}"


def _ways():
    """Return each way through the code that the page lists: its title, and the file and the names of each hop."""
    page = (DOCS / "topics" / "architecture.md").read_text().partition("\n## Four ways through the code\n")[2]
    parts = [part.partition("\n") for part in page.split("\n### ")[1:]]
    hop = re.compile(r"^\d+\. `([\w/]+\.py)` `((?:\w+\.)?)(\w+)`: [^`\s](?:.*; `(\w+)`: )?", re.MULTILINE)
    return {title: hop.findall(hops) for title, _, hops in parts}


def _defined(file):
    """Return every function, class and annotated name of a module; methods by ``Class.method``."""
    tree = ast.parse((PROJECT / "src" / "skillwire" / file).read_text())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    targets = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    found = {target.id for target in targets if isinstance(target, ast.Name)}
    for top in (node for node in tree.body if isinstance(node, kinds)):
        found.add(top.name)
        if isinstance(top, ast.ClassDef):
            found |= {f"{top.name}.{node.name}" for node in top.body if isinstance(node, kinds)}
    return found


@pytest.mark.parametrize(
    ("title", "hops", "files"),
    [
        ("GET of the index", 10, 10),
        ("skillwire add", 25, 16),
        ("REGISTER on the local network", 20, 14),
        ("POST of an execution", 20, 14),
    ],
)
def test_a_way_through_the_code_is_short_and_each_of_its_hops_exists(title, hops, files):
    found = _ways()[title]
    assert 5 < len(found) <= hops
    assert len({file for file, *_ in found}) <= files
    names = [(file, f"{kind}{name}") for file, kind, *both in found for name in both if name]
    assert not [(file, name) for file, name in names if name not in _defined(file)]


def test_what_the_page_says_to_change_exists():
    page = (DOCS / "topics" / "architecture.md").read_text()
    places = page.partition("\n## Where to change what\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+\.py)` `(\w+)`", places)
    assert len(named) > 7
    assert not [(file, name) for file, name in named if name not in _defined(file)]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_every_verb_of_a_client_that_a_page_shows_exists(page):
    shown = re.findall(r"\bclient\.(lan\.)?([a-z_]+)\(", page.read_text())
    assert not [name for on_lan, name in shown if not hasattr(Lan if on_lan else Client, name)]


@pytest.mark.parametrize("code", PYTHON_FIXES)
def test_what_a_program_writes_in_place_of_a_command_can_be_written(code):
    assert code in CODES
    client = create_autospec(Client, instance=True)
    client.lan = create_autospec(Lan, instance=True)
    client.show.return_value = create_autospec(RemoteSkill, instance=True)
    words = dict.fromkeys(("REF", "NAME", "ID", "QUERY", "CAPABILITY", "inputs"), "one")
    for expression in re.split(", or |, then ", PYTHON_FIXES[code]):
        eval(expression, {**words, "client": client, "Client": create_autospec(Client)})  # noqa: S307  # our own table
