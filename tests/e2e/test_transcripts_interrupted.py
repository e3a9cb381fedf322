"""Ctrl-C on a terminal: what is said, the exit code, no half state, and a terminal that is as it was before."""

from functools import partial

import pytest
from tests.support.publishing import write_skill
from tests.support.raw_server import RawServer, answer, index_of
from tests.support.transcript import CTRL_C, Surrounding

from skillwire.model.digest import Digest

SKILL = b"---\nname: notes\ndescription: Writes notes.\n---\n\nWrite them.\n"


def publish(peer, missing=0):
    """Publish a skill whose artifact lacks its last bytes."""
    row = {"name": "notes", "type": "skill-md", "description": "Writes notes.", "url": "/notes/SKILL.md"}
    index = index_of({**row, "digest": Digest.of(SKILL)})
    while head := peer.request():
        if b"/notes/SKILL.md" in head:
            whole = answer(SKILL)
            peer.send(whole[: len(whole) - missing])
        else:
            found = "200 OK" if b"agent-skills/index.json" in head else "404 Not Found"
            peer.send(answer(index, "Content-Type: application/json", status=found))


@pytest.fixture
def surrounding():
    with Surrounding(80, {}) as made:
        yield made


@pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}])
def test_add_from_a_slow_server(surrounding, variables):
    with RawServer(partial(publish, missing=20)) as server:
        call = ["add", f"127.0.0.1:{server.port}/notes", "--yes", "-a", "universal"]
        with surrounding.start(call, **variables) as terminal:
            # Where nothing can be drawn over, nothing is: then the request for the artifact is the moment.
            shown = "fetching" if not variables else ""
            terminal.until(lambda text: shown in text and any(b"/notes/SKILL.md" in head for head in server.requests))
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
            assert terminal.settings() == terminal.initial_settings
            assert terminal.text() == ("interrupted" if not variables else "^Cinterrupted")
            assert (terminal.screen.cursor.x, terminal.screen.cursor.hidden) == (0, False)
    assert list(surrounding.project.iterdir()) == []


def test_serve(surrounding):
    write_skill(surrounding.project / "skills", "notes")
    with surrounding.start(["serve", "skills", "--port", "0", "--no-access-log"]) as terminal:
        terminal.until(lambda text: "serving" in text and "published" in text)
        terminal.type(CTRL_C)
        assert terminal.wait() == 0
        assert terminal.settings() == terminal.initial_settings
        assert terminal.text().splitlines()[-1] == "stopped"
        assert "^C" not in terminal.text()
        assert (terminal.screen.cursor.x, terminal.screen.cursor.hidden) == (0, False)


def test_a_question(surrounding):
    with RawServer(publish) as server:
        call = ["add", f"127.0.0.1:{server.port}/notes", "-a", "universal"]
        with surrounding.start(call) as terminal:
            # A signal between the question and the wait for its answer is lost: Python looks at it before or after.
            terminal.until(lambda text: "[y/N]:" in text and terminal.raw.endswith(b" ") and terminal.is_waiting())
            terminal.type(CTRL_C)
            assert terminal.wait() == 130
            assert terminal.settings() == terminal.initial_settings
            assert terminal.text().splitlines()[-1] == "interrupted"
            assert terminal.screen.cursor.x == 0
    assert list(surrounding.project.iterdir()) == []
