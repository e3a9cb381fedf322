"""Habits of the project that a reader relies on and that nothing else would notice."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
#: Bytes that others made, kept as they are.
AS_FOUND = ("tests/corpus/",)
CODE = ("src/", "tests/", "tools/", "bench/")

# In two halves, so that this file does not hold what it looks for.
REGISTRY_HOSTS = ("pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com", "debian" + ".org")
MACHINE_PATH = re.compile("/(?:wo" + "rk|fa" + "rm|ro" + "ot)/[a-z.]")
WORDS = re.compile(
    "|".join(
        ("this work" + "place", "language mod" + "el", "(by|as an|help of) A" + r"I\b", "A" + "I-(generated|assisted)")
    ),
    re.IGNORECASE,
)


def _project_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the project's files")
    return [name for name in listed.stdout.split("\0") if name and (PROJECT / name).is_file()]


def _texts(*folders: str):
    for name in _project_files():
        if name.startswith(AS_FOUND) or (folders and not name.startswith(folders)):
            continue
        try:
            yield name, (PROJECT / name).read_text()
        except UnicodeDecodeError:
            continue  # a binary asset of an example


def _lines(*folders: str):
    for name, text in _texts(*folders):
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{name}:{number}: {line.strip()[:120]}", line


@pytest.mark.parametrize("name", ["key.pem", "deploy/tls/key.pem", "deploy/secrets/database-password", "server.key"])
def test_git_ignores_the_secrets_that_the_page_about_deploying_makes(name):
    assert Path(name).name in (PROJECT / "docs" / "how-to" / "deploy.md").read_text()
    done = subprocess.run(["git", "check-ignore", "--quiet", "--no-index", name], cwd=PROJECT, check=False)
    if done.returncode not in {0, 1}:
        pytest.skip("not a git checkout")
    assert done.returncode == 0


def test_no_file_names_a_package_registry():
    assert not [place for place, line in _lines() if any(host in line for host in REGISTRY_HOSTS)]


def test_no_file_holds_a_path_of_one_machine():
    assert not [place for place, line in _lines() if MACHINE_PATH.search(line)]


def test_no_file_tells_how_or_where_it_was_written():
    assert not [place for place, line in _lines() if WORDS.search(line)]


def test_every_exception_from_a_rule_gives_its_reason_on_its_line():
    mark = re.compile(r"#\s*(?:noqa|type: ignore)(?P<rest>.*)")
    codes_and_reason = re.compile(r"(?::? ?[A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*|\[[a-z-]+(?:, ?[a-z-]+)*\])\W+\w")
    marked = [(place, mark.search(line)) for place, line in _lines(*CODE) if "test_project.py:" not in place]
    assert not [place for place, found in marked if found and not codes_and_reason.match(found["rest"])]


def test_every_rule_that_is_switched_off_gives_its_reason():
    lines = (PROJECT / "pyproject.toml").read_text().partition("[tool.ruff.lint]")[2].splitlines()
    switched_off = [line for line in lines if re.match(r'\s+"[A-Z]+[0-9]*",', line)]
    assert len(switched_off) > 5
    assert not [line for line in switched_off if not re.search(r"#\s*\S", line)]


def test_no_work_is_left_as_a_note_in_the_code():
    note = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b|NotImplemented" + "Error")
    assert not [place for place, line in _lines(*CODE) if note.search(line)]


def test_every_locked_python_package_has_hashes_and_no_address():
    for name in ("requirements.lock", "requirements-uv.lock"):
        text = (PROJECT / name).read_text()
        pins = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert pins
        assert not [
            pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin or "==" not in pin.splitlines()[0]
        ]
        assert "://" not in text


def test_both_python_locks_hold_the_same_uv():
    locks = ((PROJECT / name).read_text() for name in ("requirements.lock", "requirements-uv.lock"))
    first, second = (re.findall(r"^uv==\S+", lock, re.MULTILINE) for lock in locks)
    assert len(first) == 1
    assert first == second


def test_every_locked_npm_package_has_an_integrity_and_no_address():
    folder = PROJECT / "tests" / "interop"
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    wanted = json.loads((folder / "package.json").read_text())
    assert packages[""]["dependencies"] == wanted["dependencies"]
    locked = {name: entry for name, entry in packages.items() if name}
    assert not [
        name for name, entry in locked.items() if "resolved" in entry or not entry["integrity"].startswith("sha512-")
    ]


def test_every_direct_dependency_is_locked():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["server"],
        *project["dependency-groups"]["dev"],
    ]
    direct = {re.split(r"[^\w.-]", line)[0] for line in wanted}
    locked = set(re.findall(r"^([\w.-]+)==", (PROJECT / "requirements.lock").read_text(), re.MULTILINE))
    assert not direct - locked


def test_every_recipe_says_what_it_is_for():
    lines = (PROJECT / "justfile").read_text().splitlines()
    recipes = [number for number, line in enumerate(lines) if re.match(r"[a-z][\w-]*( [^:=]*)?.*:$", line)]
    assert len(recipes) > 10
    for number in recipes:
        above = [line for line in lines[max(0, number - 3) : number] if line.startswith("#")]
        assert above, lines[number]


def test_every_recipe_that_the_texts_name_exists():
    shown = subprocess.run(
        [Path(sys.executable).with_name("just"), "--justfile", PROJECT / "justfile", "--summary"],
        capture_output=True,
        text=True,
        check=True,
    )
    recipes = set(shown.stdout.split())
    for name, text in _texts():
        if name.endswith((".md", ".sh")) or name == ".ci/run":
            assert set(re.findall(r"(?:^|[\s`])\./dev ([a-z][\w-]*)", text)) <= recipes, name


class TestClosingLine:
    """The plugin in conftest.py, on a suite of its own, in processes of its own."""

    SUITE = """
import pytest

def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert 1 == 2
@pytest.fixture
def broken(): raise RuntimeError
def test_has_no_fixture(broken): pass
@pytest.mark.skip(reason="no nginx")
@pytest.mark.parametrize("n", [1, 2])
def test_needs_nginx(n): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_known(): assert 0
"""

    @pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
    def test_counts_and_reasons_stand_at_the_very_end(self, tmp_path, workers):
        done = self._pytest(tmp_path, self.SUITE, *workers)
        assert done.stdout.splitlines()[-3:] == [
            "skipped 2: no nginx",
            "skipped 1: expected to fail: known",
            "2 passed, 2 failed, 3 skipped",
        ]
        assert done.returncode == 1

    def test_a_run_without_a_test_says_so_and_fails(self, tmp_path):
        done = self._pytest(tmp_path, "")
        assert done.stdout.splitlines()[-1] == "0 passed, 0 failed, 0 skipped"
        assert done.returncode == 5

    @staticmethod
    def _pytest(folder, suite, *options):
        (folder / "conftest.py").write_bytes((PROJECT / "tests" / "conftest.py").read_bytes())
        (folder / "test_suite.py").write_text(suite)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            PROJECT / "pyproject.toml",
            "--rootdir",
            folder,
        ]
        return subprocess.run([*command, *options, folder], cwd=folder, capture_output=True, text=True, check=False)
