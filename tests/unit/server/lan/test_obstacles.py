"""What keeps a skill from running here: no grant, a secret that is not set, no sandbox."""

from __future__ import annotations

import pytest
from tests.support.publishing import write_skill

from skillwire.adapters.sqlite.open import open_grants
from skillwire.errors import StorageError, TrustError
from skillwire.folder.publish import Prepared, prepare
from skillwire.invocation.settings import ExecutionSettings
from skillwire.server.lan.obstacles import NO_SANDBOX, UNGRANTED, UNSET, Obstacles

PYTHON = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
SECRET = f'{PYTHON}[permissions]\nsecrets = ["API_KEY"]\n'
HTTP = 'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com/"\n'
HUMAN = 'kind = "action"\n[executor]\nkind = "human"\n'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))


@pytest.fixture
def skill(tmp_path):
    def make(manifest, name="adder"):
        files = {"skill.toml": manifest, "main.py": "def main(args): ...\n"}
        outcome = prepare(write_skill(tmp_path / "skills", name, files), "acme")
        assert isinstance(outcome, Prepared), outcome
        return outcome.skill

    return make


def obstacles(unset=(), sandbox=lambda: 0.01, clock=lambda: 0.0, **settings):
    return Obstacles(ExecutionSettings(**settings), lambda names: [n for n in names if n in unset], sandbox, clock)


def broken():
    raise TrustError("SANDBOX", "no sandbox starts here")


def test_what_nobody_granted_is_in_the_way_until_somebody_does(skill):
    one = skill(PYTHON)
    assert obstacles().find([one]) == {"adder": UNGRANTED}
    open_grants().agree(one, "ann")
    assert obstacles().find([one]) == {}


def test_instructions_and_people_are_never_in_the_way(skill):
    assert obstacles(sandbox=broken).find([skill("", "notes"), skill(HUMAN, "asked")]) == {}


def test_a_secret_that_is_not_set_is_told_without_its_name(skill):
    found = obstacles(unset=["API_KEY"], grant_all=True).find([skill(SECRET)])
    assert found == {"adder": UNSET}
    assert "API_KEY" not in UNSET
    assert obstacles(grant_all=True).find([skill(SECRET)]) == {}


def test_secrets_that_cannot_be_read_are_not_set(skill):
    def unset(_):
        raise StorageError("SECRETS_FILE", "others may read it")

    known = Obstacles(ExecutionSettings(grant_all=True), unset, lambda: 0.01)
    assert known.find([skill(SECRET)]) == {"adder": UNSET}


def test_code_needs_a_sandbox_and_nothing_else_does(skill):
    found = obstacles(sandbox=broken, grant_all=True).find([skill(PYTHON), skill(HTTP, "caller")])
    assert found == {"adder": NO_SANDBOX}


def test_a_sandbox_is_tried_again_after_a_while_and_never_once_it_started(skill):
    time, tries = [0.0], []

    def sandbox():
        tries.append(time[0])
        if time[0] < 60:
            broken()

    known = obstacles(sandbox=sandbox, clock=lambda: time[0], grant_all=True)
    one = skill(PYTHON)
    for time[0] in (0.0, 30.0, 61.0, 1000.0):
        found = known.find([one])
        assert found == ({"adder": NO_SANDBOX} if time[0] < 60 else {})
    assert tries == [0.0, 61.0]


def test_where_others_run_it_only_grants_are_looked_at(skill):
    known = obstacles(unset=["API_KEY"], sandbox=broken, concurrency=0)
    one = skill(SECRET)
    assert known.find([one]) == {"adder": UNGRANTED}
    open_grants().agree(one, "ann")
    assert known.find([one]) == {}
