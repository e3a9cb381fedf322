"""``share``: a colleague installs exactly what is shared, and both sides show the same six words."""

import json
import re
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.support.forked import PROGRAM, run_forked
from tests.support.publishing import write_skill
from tests.support.terminal import Terminal


def environment(place, who):
    home = place / who
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def place(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    return tmp_path


def add(place, line, *more):
    return run_forked([PROGRAM, *line.split()[1:], *more], cwd=place / "her", env=environment(place, "her"))


def test_a_colleague_pastes_the_line_and_compares_the_words(place):
    command = [PROGRAM, "share", "skills/notes", "--host", "127.0.0.1", "--once", "--for", "10m"]
    environment(place, "her")
    with Terminal(command, cwd=place, environment=environment(place, "me"), columns=110, lines=60) as shown:
        text = shown.until("for this machine only")
        assert "█▀▀▀▀▀█" in text or "▄▄▄▄▄" in text  # a corner of the code
        whole = re.sub(r"(?m)^(.{110})\n", r"\1", text)  # the terminal breaks a line, and copies it as one
        [line] = re.findall(r"skillwire add http://127\.0\.0\.1:\d+/notes@sha256:[0-9a-f]{64}", whole)
        [words] = re.findall(r"six words  ((?:[a-z]+ ){5}[a-z]+)", text)
        absent = line.split()[2].partition("/notes@")[0] + "/.well-known/agent-skills/sha256/0.tar.gz"
        with pytest.raises(HTTPError):  # it is no download, so the first download is still to come
            urlopen(absent)  # noqa: S310  # a server of this test
        wrong = add(place, line[:-1] + ("0" if line[-1] != "0" else "1"), "--yes")
        assert "error[VERSION_NOT_FOUND]" in wrong.stderr
        done = add(place, line, "--yes")
        assert (done.returncode, f"six words: {words}" in done.stderr) == (0, True), done.stderr
        assert "downloaded by 127.0.0.1" in shown.until("stopped")
        assert shown.wait() == 0
    assert (place / "her/.agents/skills/notes/SKILL.md").read_bytes() == (place / "skills/notes/SKILL.md").read_bytes()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: (place / "skills/notes/SKILL.md").unlink(), "error[USAGE]: share takes one skill"),
        (lambda place: (place / "skills/notes/skill.toml").write_text('access = "private"\n'), "is not public"),
        (lambda place: (place / "skills/notes/SKILL.md").write_text("x"), "error[SKILL_INVALID]"),
    ],
)
def test_what_cannot_be_shared_is_refused(place, make, said):
    make(place)
    done = run_forked(
        [PROGRAM, "share", "skills/notes", "--host", "127.0.0.1"], cwd=place, env=environment(place, "me")
    )
    assert said in done.stderr
    assert done.returncode in {1, 2, 3}


def test_the_line_names_an_address_that_a_colleague_can_reach(place):
    command = [PROGRAM, "share", "skills/notes", "--host", "0.0.0.0", "--for", "0.1s", "--json"]  # noqa: S104  # every address, as the user asks
    done = run_forked(command, cwd=place, env=environment(place, "me"))
    assert done.returncode == 0, done.stderr
    assert "//0.0.0.0" not in json.loads(done.stdout)["add"]
