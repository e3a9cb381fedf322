"""The consuming commands against a real server, as people and as scripts use them: in a pipe and on a terminal."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually
from tests.support.forked import ForkedPython, run_forked
from tests.support.publishing import serving, write_skill
from tests.support.raw_server import RawServer, answer, index_of
from tests.support.terminal import Terminal

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"
SKILLWIRE = [sys.executable, "-m", "skillwire"]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    with serving(EXAMPLES, tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def run(project, *arguments):
    return run_command(*arguments, cwd=project)


def document(project, *arguments, code=0):
    done = run(project, *arguments, "--json")
    assert done.code == code, done.err
    return done.document()


def binary_asset(name):
    folder = EXAMPLES / name
    (path,) = [path for path in (folder / "assets").iterdir() if b"\0" in path.read_bytes()]
    return str(path.relative_to(folder))


def at_terminal(project, *arguments, columns=80, **environment):
    environment = {**os.environ, "TERM": "xterm", **environment}
    return Terminal([*SKILLWIRE, *arguments], cwd=project, environment=environment, columns=columns)


class TestPipe:
    def test_find(self, origin, project):
        found = document(project, "find", "profile", "a", "csv", "--from", origin)
        assert found["schema"] == "skillwire/find/1"
        assert found["hits"][0]["name"] == "csv-profile"
        assert found["hits"][0]["reference"] == f"{origin}/csv-profile"
        assert len(document(project, "find", "--from", origin)["hits"]) == len(list(EXAMPLES.glob("*/SKILL.md")))

    def test_show_has_three_levels(self, origin, project):
        reference = f"{origin}/csv-profile"
        shown = document(project, "show", reference)
        assert set(shown) == {"schema", "skill", "type", "rungs", "versions", "findings"}
        shown = document(project, "show", reference, "--body", "--files")
        assert shown["body"].strip() in (EXAMPLES / "csv-profile/SKILL.md").read_text()
        listed = {row["path"]: row["executable"] for row in shown["files"]}
        folder = EXAMPLES / "csv-profile"
        assert listed == {
            str(path.relative_to(folder)): os.access(path, os.X_OK)
            for path in folder.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    def test_cat_gives_the_bytes_as_they_are(self, origin, project):
        done = run(project, "cat", f"{origin}/letter-docx", "SKILL.md")
        assert done.raw == (EXAMPLES / "letter-docx/SKILL.md").read_bytes()

    def test_a_call_of_instructions_leads_to_add(self, origin, project):
        refused = document(project, "call", f"{origin}/api-error-design", code=2)["error"]
        assert refused["code"] == "NOT_CALLABLE"
        assert refused["fix"].startswith(f"Install it: skillwire add {origin}/api-error-design;")

    def test_cat_of_what_leads_out(self, origin, project):
        done = run(project, "cat", f"{origin}/csv-profile", "../../../etc/passwd")
        assert done.code == 4
        assert "root:" not in done.out + done.err

    def test_add_list_verify_remove(self, origin, project):
        added = document(project, "add", f"{origin}/csv-profile", "--yes", "-a", "codex", "-a", "claude-code")
        assert [row["name"] for row in added["installed"]] == ["csv-profile"]
        assert (project / ".claude/skills/csv-profile").is_symlink()
        assert [row["name"] for row in document(project, "list")["skills"]] == ["csv-profile"]
        assert document(project, "verify") == {
            "schema": "skillwire/verify/1",
            "skills": ["csv-profile"],
            "deviations": [],
            "findings": [],
        }
        (project / ".agents/skills/csv-profile/SKILL.md").write_text("edited")
        failed = document(project, "verify", code=4)
        assert failed["error"]["code"] == "VERIFY_FAILED"
        assert failed["error"]["details"]["deviations"] == [
            {"name": "csv-profile", "path": "SKILL.md", "problem": "changed"}
        ]
        assert document(project, "remove", "csv-profile", code=6)["error"]["code"] == "SKILL_CONFLICT"
        document(project, "remove", "csv-profile", "--overwrite")
        assert not (project / ".agents").exists()
        assert not os.path.lexists(project / ".claude/skills/csv-profile")

    def test_what_is_installed_is_what_was_published(self, origin, project):
        document(project, "add", origin, "--all", "--yes", "-a", "universal")
        for folder in EXAMPLES.iterdir():
            if not (folder / "SKILL.md").is_file():
                continue
            for path in folder.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    installed = project / ".agents/skills" / folder.name / path.relative_to(folder)
                    assert installed.read_bytes() == path.read_bytes()
                    assert os.access(installed, os.X_OK) == os.access(path, os.X_OK)
                    assert installed.stat().st_mode & 0o7022 == 0

    def test_nothing_is_asked_without_a_terminal(self, origin, project):
        assert document(project, "add", f"{origin}/csv-profile", code=4)["error"]["code"] == "ORIGIN_UNKNOWN"
        assert document(project, "add", origin, code=2)["error"]["code"] == "REFERENCE"
        assert run(project, "add", origin).err.startswith("error[REFERENCE]: ")
        assert list(project.iterdir()) == []

    def test_a_dry_run_changes_nothing(self, origin, project):
        plan = document(project, "add", f"{origin}/csv-profile", "--dry-run")
        assert plan["skills"][0]["state"] == "new"
        assert plan["unknown_origins"] == [f"http://{origin}"]
        assert not plan["consent"]
        told = run(project, "add", f"{origin}/csv-profile", "--dry-run", "-a", "codex").out
        assert told == f"would ask for consent to http://{origin}\nwould add csv-profile  .agents/skills\n"
        told = run(project, "add", f"{origin}/csv-profile", "--dry-run", "--yes").out
        assert told.startswith(f"would take --yes as consent to http://{origin}\n")
        assert list(project.iterdir()) == []
        assert document(project, "trust")["origins"] == []

    def test_a_dry_run_says_what_would_be_asked(self, origin, project):
        document(project, "add", f"{origin}/csv-profile", "--yes", "-a", "codex")
        before = (project / "skills.lock").read_bytes()
        assert run(project, "remove", "csv-profile", "--dry-run").out == "would remove csv-profile  .agents/skills\n"
        (project / ".agents/skills/csv-profile/SKILL.md").write_text("edited")
        told = run(project, "remove", "csv-profile", "--dry-run").out
        assert told == "would ask about csv-profile  its files were changed\n"
        assert document(project, "remove", "csv-profile", "--dry-run")["changed"] == ["csv-profile"]
        told = run(project, "remove", "csv-profile", "--dry-run", "--overwrite").out
        assert told == "would remove csv-profile  .agents/skills\n"
        for options, words in (([], "would ask about"), (["--overwrite"], "would replace")):
            told = run(project, "add", f"{origin}/csv-profile", "--dry-run", "-a", "codex", *options).out
            assert told.startswith(f"{words} csv-profile"), told
        assert (project / ".agents/skills/csv-profile/SKILL.md").read_text() == "edited"
        assert (project / "skills.lock").read_bytes() == before

    def test_consent_is_taken_back(self, origin, project):
        reference = f"{origin}/csv-profile"
        document(project, "add", reference, "--yes", "-a", "codex")
        assert [row["origin"] for row in document(project, "trust")["origins"]] == [f"http://{origin}"]
        assert run(project, "trust", "revoke", origin, "--dry-run").out == f"would revoke http://{origin}\n"
        assert run(project, "trust", "revoke", origin).out == f"revoked http://{origin}\n"
        assert document(project, "trust")["origins"] == []
        failed = document(project, "add", f"{origin}/log-triage", code=4)
        assert failed["error"]["code"] == "ORIGIN_UNKNOWN"
        assert document(project, "verify")["skills"] == ["csv-profile"], "what is installed stays"
        failed = document(project, "trust", "revoke", origin, code=3)
        assert failed["error"]["code"] == "ORIGIN_NOT_ACCEPTED"

    @pytest.mark.parametrize("command", ["remove", "verify", "update", "outdated"])
    def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(self, origin, project, command):
        document(project, "add", f"{origin}/csv-profile", "--yes", "-a", "codex")
        failed = document(project, command, "csv-profil", code=3)
        assert failed["error"]["code"] == "NOT_INSTALLED"
        assert failed["error"]["fix"] == "Did you mean csv-profile?"

    def test_a_mistyped_agent_is_answered_before_anything_is_asked_for(self, project):
        failed = document(project, "add", "127.0.0.1:9/one", "-a", "claud-code", code=2)
        assert "claude-code" in failed["error"]["fix"]

    def test_all_agents_leave_a_plain_skills_folder_alone(self, origin, project):
        document(project, "add", f"{origin}/csv-profile", "--yes", "-a", "*")
        assert not (project / "skills").exists()
        assert (project / ".claude/skills/csv-profile").is_symlink()

    def test_find_without_sources_says_what_to_type(self, project):
        failed = document(project, "find", "pdf", code=2)
        assert failed["error"]["code"] == "NO_SOURCES"
        assert "find --from example.com" in failed["error"]["fix"]
        assert 'sources = ["example.com"]' in failed["error"]["fix"]

    def test_find_prints_a_line_for_a_skill(self, origin, project):
        lines = run(project, "find", "--from", origin, "--limit", "50").out.splitlines()
        assert len(lines) == len(list(EXAMPLES.glob("*/SKILL.md")))
        assert not any(line.endswith("…") for line in lines), "nothing is cut in a pipe"
        assert len({line.index("1.0.0") for line in lines if "1.0.0" in line}) == 1

    def test_errors_have_code_cause_place_and_fix(self, origin, project):
        done = run(project, "show", f"{origin}/csv-profil")
        assert done.code == 3
        assert done.out == ""
        assert done.err.splitlines()[0].startswith("error[SKILL_NOT_FOUND]: ")
        assert "Did you mean csv-profile" in done.err
        assert "docs: skillwire explain SKILL_NOT_FOUND" in done.err

    def test_no_colour_and_no_bar_in_a_pipe(self, origin, project):
        done = run(project, "add", f"{origin}/csv-profile", "--yes")
        assert "\x1b" not in done.out + done.err

    def test_a_reader_that_leaves_is_no_error(self, origin, project):
        command = f"'{sys.executable}' -m skillwire cat {origin}/csv-profile SKILL.md | head -c 1"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=project, capture_output=True, check=False)
        assert done.returncode == 0
        assert done.stderr == b""

    def test_offline_after_once_online(self, origin, project):
        document(project, "show", f"{origin}/csv-profile", "--body")
        document(project, "show", f"{origin}/csv-profile", "--body", "--offline")
        assert (
            document(project, "show", f"{origin}/log-triage", "--body", "--offline", code=5)["error"]["code"]
            == "OFFLINE"
        )

    def test_a_local_folder(self, project):
        document(project, "add", str(EXAMPLES / "csv-profile"), "-a", "universal")
        assert document(project, "outdated")["skills"][0]["state"] == "current"
        assert document(project, "verify")["deviations"] == []

    def test_debug_shows_a_stack_trace_and_nothing_else_does(self, project):
        assert "Traceback" not in run(project, "show", "a b").err
        assert "Traceback" in run(project, "--debug", "show", "a b").err


class TestTerminal:
    def test_consent_is_asked_once(self, origin, project):
        with at_terminal(project, "add", f"{origin}/csv-profile", "-a", "universal") as terminal:
            terminal.until("Trust it? [y/N]")
            terminal.type("y\n").until("added")
            assert terminal.wait() == 0
            assert b"\x1b[" in terminal.raw
        with at_terminal(project, "add", f"{origin}/log-triage", "-a", "universal", NO_COLOR="1") as terminal:
            terminal.until("added")
            assert terminal.wait() == 0
            assert b"\x1b[" not in terminal.raw

    @pytest.mark.parametrize(
        ("keys", "names"),
        [
            ("\x1b[B \r", {"csv-profile"}),
            ("\r   \x1bOA \r", {"agenda", "notes"}),
            ("jj kk \n", {"agenda", "notes"}),
            ("a\r", {"agenda", "csv-profile", "notes"}),
            ("aa \r", {"agenda"}),
        ],
    )
    def test_of_several_skills_those_are_added_that_are_selected(self, project, tmp_path, keys, names):
        for name in ("agenda", "csv-profile", "notes"):
            write_skill(tmp_path / "several", name)
        words = ["add", str(tmp_path / "several"), "-a", "universal"]
        with at_terminal(project, *words, columns=1000) as terminal:
            terminal.until("[ ] notes")
            for key in re.findall(r"\x1b\[?O?.|.", keys, re.DOTALL):
                before = terminal.raw
                terminal.type(key)
                terminal.until(lambda _, before=before: terminal.raw != before)
            assert terminal.wait() == 0
            assert "space selects" not in terminal.text()
        assert {path.parent.name for path in project.glob(".agents/skills/*/SKILL.md")} == names

    @pytest.mark.parametrize(
        ("words", "talk"),
        [
            (["add", "ORIGIN/csv-profile"], ("[y/N]", "n\n", 4)),
            (["add", "ORIGIN"], ("space selects", "q", 2)),
            (["cat", "ORIGIN/letter-docx", binary_asset("letter-docx")], ("is not text", "", 2)),
        ],
    )
    def test_no_means_no_and_a_binary_file_is_not_poured_onto_it(self, origin, project, words, talk):
        asked, typed, code = talk
        words = [word.replace("ORIGIN", origin) for word in words]
        with at_terminal(project, *words, columns=1000) as terminal:
            terminal.until(asked)
            terminal.type(typed)
            assert terminal.wait() == code
        assert list(project.iterdir()) == []

    @pytest.mark.parametrize("columns", [40, 80, 100])
    def test_find_keeps_to_the_width(self, origin, project, columns):
        words = ("find", "--from", origin, "--limit", "50")
        with at_terminal(project, *words, NO_COLOR="1", COLUMNS=str(columns), columns=1000) as terminal:
            assert terminal.wait() == 0
            skills = [line for line in terminal.text().splitlines() if not line.startswith("show details")]
        assert max(map(len, skills)) <= columns
        assert any(line.endswith("…") for line in skills)
        assert len(skills) == len(list(EXAMPLES.glob("*/SKILL.md"))) * (2 if columns == 40 else 1)

    def test_ctrl_c_leaves_nothing_behind(self, project):
        asked = threading.Event()
        with (
            RawServer(hanging_artifact(asked)) as server,
            at_terminal(project, "add", f"127.0.0.1:{server.port}/one", "--yes") as terminal,
        ):
            assert asked.wait(PATIENCE)
            terminal.until("fetching [--------------------] 0/1")
            terminal.type("\x03")
            assert terminal.wait() == 130
        assert list(project.iterdir()) == []
        last = terminal.raw.decode().rpartition("\r\x1b[K")[2]
        assert last.splitlines()[-1] == "interrupted", "the line is cleared"

    @pytest.mark.parametrize(
        "arguments", [["find", "--from"], ["show"], ["cat"], ["add"]], ids=lambda arguments: arguments[0]
    )
    def test_what_keeps_us_waiting_is_named(self, project, arguments):
        with RawServer(silent) as server:
            path = ["SKILL.md"] if arguments == ["cat"] else []
            with at_terminal(project, *arguments, f"127.0.0.1:{server.port}", *path) as terminal:

                def seconds(shown):
                    found = re.search(rf"reading 127\.0\.0\.1:{server.port} … (\d+) s", shown)
                    return int(found[1]) if found else 0

                first = seconds(terminal.until(seconds))
                terminal.until(lambda shown: seconds(shown) > first)
                terminal.type("\x03")
                assert terminal.wait() == 130

    def test_nothing_is_shown_with_quiet_or_on_a_dumb_terminal(self, project):
        asked = threading.Event()
        for options, term in ((["--quiet"], "xterm"), ([], "dumb")):
            with (
                RawServer(hanging_artifact(asked)) as server,
                at_terminal(project, "add", f"127.0.0.1:{server.port}/one", "--yes", *options, TERM=term) as terminal,
            ):
                assert asked.wait(PATIENCE)
                assert not terminal.shows_within(1.5), "longer than a line would take to come"
                terminal.type("\x03")
                assert terminal.wait() == 130
            asked.clear()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(project, number):
    asked = threading.Event()
    with RawServer(hanging_artifact(asked)) as server:
        command = [*SKILLWIRE, "add", f"127.0.0.1:{server.port}/one", "--yes"]
        running = ForkedPython(command, cwd=project, stderr=subprocess.DEVNULL)
        assert asked.wait(PATIENCE)
        running.send_signal(number)
        assert running.wait(PATIENCE) == 128 + number
    assert list(project.iterdir()) == []


STOPPED_IN_A_CLASS_BODY = """
import os, signal, sys
from skillwire.cli import main, show

class Stopped:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)

def show_command(*_, **__):
    type("Imported", (), {"field": Stopped()})

show.command.callback = show_command
sys.exit(main.run(["show", "127.0.0.1:9/one"]))
"""


def test_a_signal_of_which_python_makes_another_error_ends_the_command_too():
    done = run_forked([sys.executable, "-c", STOPPED_IN_A_CLASS_BODY])
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "stopped by a signal\n")


def silent(peer):
    """Take requests and answer none."""
    while peer.request():
        pass


def test_an_origin_that_is_gone_is_told_once(tmp_path, project):
    with serving(EXAMPLES, tmp_path / "server") as origin:
        document(project, "add", origin, "--all", "--yes", "-a", "universal")
    for command in ("outdated", "update"):
        done = run(project, command)
        assert done.code == 5, done.err
        line, cause, fix = done.out.splitlines()
        assert cause == "  cause: No server listens at that address, or a firewall blocks the connection."
        assert fix == "  fix: Check that the server is running, and check the port."
        assert line.startswith("unreachable  ")
        assert line.count("CONNECT_FAILED") == 1
        assert " more  " in line
        assert done.err == ""
    compared = document(project, "update", "--dry-run", code=5)["compared"]
    assert {row["state"] for row in compared} == {"unreachable"}


def hanging_artifact(asked):
    """Return the conversation of a server with one skill, whose artifact never comes to its end."""
    entry = {"name": "one", "type": "skill-md", "description": "d", "url": "/one.md", "digest": f"sha256:{'0' * 64}"}

    def talk(peer):
        while head := peer.request():
            if b"index.json" in head.splitlines()[0]:
                peer.send(answer(index_of(entry), "Content-Type: application/json"))
            else:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/markdown\r\nContent-Length: 1000\r\n\r\n---\n")
                asked.set()

    return talk


def test_update_brings_what_changed(tmp_path, project):
    skills = tmp_path / "skills"
    for name in ("git-commit-messages", "csv-profile"):
        shutil.copytree(EXAMPLES / name, skills / name)
    with serving(skills, tmp_path / "server") as origin:
        document(project, "add", origin, "--all", "--yes", "-a", "universal")
        assert document(project, "update")["installed"] == []
        skill_md = skills / "git-commit-messages/SKILL.md"
        skill_md.write_text(skill_md.read_text() + "\nMore.\n")
        eventually(lambda: run(project, "outdated").code)
        again = document(project, "add", f"{origin}/git-commit-messages", "--yes", code=4)["error"]
        (held,) = document(project, "update", code=4)["failed"].values()
        assert (again["code"], again["fix"]) == (held["code"], held["fix"])
        assert held["code"] == "VERSION_REUSED"
        accept = held["fix"].split()[-2:]
        assert [row["name"] for row in document(project, "update", *accept)["installed"]] == ["git-commit-messages"]
        assert (project / ".agents/skills/git-commit-messages/SKILL.md").read_bytes() == skill_md.read_bytes()


def test_an_exact_version_that_has_other_bytes_now_is_held_and_not_called_gone(tmp_path, project):
    skill_md = write_skill(tmp_path / "skills", "notes") / "SKILL.md"
    with serving(tmp_path / "skills", tmp_path / "server") as origin:
        document(project, "add", f"{origin}/notes@1.0.0", "--yes")
        skill_md.write_text(skill_md.read_text() + "\nMore.\n")
        eventually(lambda: run(project, "outdated").code)
        (held,) = document(project, "update", code=4)["failed"].values()
        assert held["code"] == "VERSION_REUSED"
        accept = held["fix"].split()[-2:]
        assert [row["name"] for row in document(project, "update", *accept)["installed"]] == ["notes"]


def test_help_of_every_command(project):
    commands = re.findall(r"^  ([a-z]+)  ", run(project, "--help").out, re.MULTILINE)
    assert len(commands) >= 13
    for command in commands:
        done = run(project, command, "--help")
        assert done.code == 0, done.err
        assert done.out.startswith(f"Usage: skillwire {command}")


@pytest.mark.parametrize("page", ["skills/csv-profile", "skills/csv-profile/files/references/remedies.md"])
def test_the_address_of_a_page_means_its_skill(project, origin, page):
    address = f"http://{origin}"
    assert document(project, "show", f"{address}/{page}")["skill"]["name"] == "csv-profile"
    assert run(project, "add", f"{address}/{page}", "--yes").out.startswith("added csv-profile ")
    for command in (["show", "csv-profile"], ["cat", "csv-profile", "SKILL.md"], ["which", "csv-profile"]):
        told = run(project, *command).err
        assert f"csv-profile is installed here from {address}; write {address}/csv-profile." in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["list", "--json"], ["explain"], ["--help"]])
def test_a_full_disk_below_standard_output_is_an_error_with_a_code(project, arguments, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SKILLWIRE, *arguments],
            cwd=project,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 7
    assert done.stderr.startswith("error[STORAGE]: the output cannot be written: No space left on device\n")
    assert "Exception ignored" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", [["list", "--json"], ["rpc", "."]])
def test_a_command_whose_streams_are_closed_does_its_work(project, arguments, closed):
    script = f'exec "$@" {closed}'
    command = ["sh", "-c", script, "sh", *SKILLWIRE, *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "error" not in done.stderr


@pytest.mark.parametrize("arguments", [["list"], ["add", "./skills/csv-profile"], ["serve"]])
def test_a_current_folder_that_was_removed_is_named(project, arguments):
    command = ["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", *SKILLWIRE, *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 7
    assert done.stderr.startswith("error[STORAGE]: the current folder was removed\n")
