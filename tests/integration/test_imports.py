"""What is imported when: start-up time is what users feel, and a small install path is one that can be read."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tomllib
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from tests.support.loopback_server import LoopbackServer

from skillwire.cli.main import GROUPS

COMMANDS = [name for section in GROUPS.values() for name in section]
INSTALL_PATH = {"click", "skillwire"}
#: What may be imported when, beyond what click and Python itself bring.
ALLOWED = tomllib.loads((Path(__file__).parent / "allowed_imports.toml").read_text())
PYTHON = "import encodings, typing, importlib, __future__"
CLICK = "import click; click.Group('x').main(['--help'], standalone_mode=False)"


def _imported(program, *, cwd=None):
    """Return the names of the modules that ``program`` imports beyond those of an empty program."""
    probe = f"import sys; before = set(sys.modules)\n{program}\nimport json; sys.stdout.flush()\n"
    probe += "sys.stderr.write('MODULES' + json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.partition("MODULES")[2])), done


def _beyond(modules, program):
    """Return what is imported beyond ``program``: our modules, and public names of all others' packages."""
    more = modules - _imported(program)[0]
    packages = {name.partition(".")[0] for name in more if not name.startswith("skillwire")}
    ours = {name for name in more if name.startswith("skillwire")}
    return ours | {name for name in packages if not name.startswith("_")}


def _assert_allowed(modules, program, kind):
    new = _beyond(modules, program) - set(ALLOWED[kind])
    assert not new, (
        f"{kind} imports {', '.join(sorted(new))}. Each module makes the start longer: import it in the function that "
        f"needs it, or, where nothing works without it, add it to {kind} in tests/integration/allowed_imports.toml"
    )


def _packages_of_others(modules):
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def _run_command_line(*arguments):
    return f"from skillwire.cli.main import run; assert run({list(arguments)!r}) == 0"


def test_importing_the_package_imports_nothing():
    modules, _ = _imported("import skillwire")
    assert _packages_of_others(modules) == {"skillwire"}
    _assert_allowed(modules, PYTHON, "package")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_command_and_no_part_that_works(option):
    modules, _ = _imported(_run_command_line(option))
    assert _packages_of_others(modules) <= INSTALL_PATH
    _assert_allowed(modules, CLICK, "help")


def test_what_is_not_allowed_is_named_with_what_to_do():
    modules, _ = _imported("import skillwire, sqlite3")
    with pytest.raises(AssertionError, match=r"package imports .*sqlite3.* tests/integration/allowed_imports\.toml"):
        _assert_allowed(modules, PYTHON, "package")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_imports_the_server_or_packages_it_can_do_without_before_it_runs(command):
    modules, _ = _imported(f"from skillwire.cli.main import cli; assert cli.get_command(None, '{command}')")
    assert _packages_of_others(modules) <= INSTALL_PATH
    assert not [name for name in modules if name.startswith("skillwire.server")]


@pytest.mark.parametrize("part", ["Client", "AsyncClient", "server.app", "executions.callable_skill"])
def test_readers_of_schemas_and_of_yaml_are_imported_with_the_first_document(part):
    program = f"import skillwire; skillwire.{part}" if part[0].isupper() else f"import skillwire.{part}"
    assert not {"jsonschema_rs", "yaml"} & _imported(program)[0]


@pytest.fixture
def origin(tmp_path):
    """Serve an index of one archive and one SKILL.md; return the address."""
    site = tmp_path / "site"
    folder = site / ".well-known" / "agent-skills"
    folder.mkdir(parents=True)
    entries = [
        _entry(folder, "packed", "archive", _archive(_skill("packed"))),
        _entry(folder, "plain", "skill-md", _skill("plain")),
    ]
    schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    (folder / "index.json").write_text(json.dumps({"$schema": schema, "skills": entries}))

    class Site(SimpleHTTPRequestHandler):
        def translate_path(self, path):
            return str(site / path.removeprefix("/"))

        def log_message(self, *_):
            pass

    with LoopbackServer(Site) as server:
        yield f"http://{server.host}"


def _skill(name):
    return f"---\nname: {name}\ndescription: Says hello when a greeting is asked for.\n---\nSay hello.\n".encode()


def _archive(skill):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo("SKILL.md")
        info.size = len(skill)
        archive.addfile(info, io.BytesIO(skill))
    return buffer.getvalue()


def _entry(folder, name, artifact_type, artifact):
    suffix = {"archive": "tar.gz", "skill-md": "md"}[artifact_type]
    (folder / f"{name}.{suffix}").write_bytes(artifact)
    return {
        "name": name,
        "type": artifact_type,
        "description": "Says hello when a greeting is asked for.",
        "url": f"/.well-known/agent-skills/{name}.{suffix}",
        "digest": f"sha256:{hashlib.sha256(artifact).hexdigest()}",
    }


def test_add_needs_click_and_the_standard_library_alone(origin, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    modules, done = _imported(_run_command_line("add", origin, "--all", "--yes", "--agent", "universal"), cwd=project)
    assert {path.parent.name for path in project.glob(".agents/skills/*/SKILL.md")} == {"packed", "plain"}, done.stderr
    assert _packages_of_others(modules) <= INSTALL_PATH
    _assert_allowed(modules, CLICK, "add")
