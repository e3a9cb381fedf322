"""``skillwire inbox complete`` on a real terminal: asked field by field, and broken off without a trace."""

import json

import pytest
from tests.support.tasks import add_task, open_at
from tests.support.transcript import CTRL_C, Surrounding

ID = "exec-" + "a" * 32


@pytest.fixture
def surrounding():
    with Surrounding(80, {}) as made:
        yield made


@pytest.fixture
def state(surrounding):
    directory = surrounding.project.parent / ".local/state/skillwire"
    add_task(state=directory, execution_id=ID)
    return directory


def kept(state):
    ledger = open_at(state)
    try:
        return ledger.find(ID)
    finally:
        ledger.close()


def shows(terminal, text):
    terminal.until(lambda seen: text.strip() in seen.replace("\n", ""))


def test_a_person_is_asked_field_by_field_and_hands_that_in(surrounding, state):
    with surrounding.start(["inbox", "complete", "exec-aaaa"]) as terminal:
        for prompt, answer in [
            ("booked (true or false): ", "maybe"),
            ("must be true or false", "yes"),
            ("table (whole number, 1 to 99): ", "100"),
            ("room (garden | hall) [hall]: ", ""),
            ("wishes (texts): ", "a window"),
            ("wishes (one more): ", ""),
            ("100 is greater than", "4"),
            ("Submit this? [y/N]: ", "y"),
        ]:
            shows(terminal, prompt)
            terminal.type(f"{answer}\n")
        assert terminal.wait() == 0
    done = kept(state)
    assert json.loads(done.output) == {"booked": True, "table": 4, "room": "hall", "wishes": ["a window"]}
    assert done.timeline[-1].by == "human:newcomer"


def test_who_presses_control_c_leaves_the_task_to_others(surrounding, state):
    with surrounding.start(["inbox", "complete", "exec-aaaa"]) as terminal:
        shows(terminal, "booked (true or false): ")
        assert kept(state).worker == "human:newcomer"
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
    assert kept(state).worker is None
