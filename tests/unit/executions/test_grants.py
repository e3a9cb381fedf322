"""Grants: what may run, and what a new one is asked for."""

import pytest
from tests.support.opened import Blocking

from skillwire.adapters.sql.tokens import SqlGrants
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import NotFoundError, UsageError
from skillwire.executions.grants import Grants, needs_grant
from skillwire.model.digest import Digest
from skillwire.model.skill import Action, Artifact, Permissions, Skill, SkillFile

ASKED = Permissions(("https://a.example",), ("API_KEY",))
CODE = Action("python", "main.py", permissions=ASKED)


def skill(content=b"one", *, action: Action | None = CODE, **more):
    digest = Digest.of(b"artifact of " + content)
    files = (SkillFile("SKILL.md", 3, Digest.of(b"md")), SkillFile("main.py", len(content), Digest.of(content)))
    artifact = Artifact("archive", "application/gzip", ".tar.gz", 100, digest)
    fields = {"name": "weather", "files": files, **more}
    return Skill("corp", version="1.0.0", description="Tells.", artifact=artifact, action=action, **fields)


@pytest.fixture
def grants(tmp_path):
    ticks = iter(range(100))
    return Blocking(Grants(SqlGrants(AsyncDatabase(Database(tmp_path / "state.db"))), lambda: float(next(ticks))))


def test_nothing_runs_before_somebody_agreed_to_exactly_that(grants):
    asked = skill()
    assert not grants.allows(asked)
    grant = grants.agree(asked, "ann")
    assert (grant.digest, grant.permissions, grant.skill, grant.by, grant.at) == (
        str(asked.artifact.digest),
        ASKED,
        "weather",
        "ann",
        0.0,
    )
    assert grants.allows(asked)
    assert not grants.allows(skill(b"two"))
    more = Action("python", "main.py", permissions=ASKED._replace(network=("https://a.example", "https://b.example")))
    assert not grants.allows(skill(action=more))
    assert not grants.allows(skill(action=Action("python", "main.py")))


@pytest.mark.parametrize("executor", ["human", "function"])
def test_what_runs_nothing_of_its_folder_needs_no_grant(grants, executor):
    asked = skill(action=Action(executor))
    assert grants.allows(asked)
    assert not needs_grant(asked)
    with pytest.raises(UsageError) as caught:
        grants.agree(asked, "ann")
    assert caught.value.code == "GRANT_NEEDLESS"


def test_instructions_are_never_run(grants):
    asked = skill(action=None)
    assert not grants.allows(asked)
    assert not needs_grant(asked)
    with pytest.raises(UsageError, match="instructions"):
        grants.agree(asked, "ann")


def test_an_upstream_is_granted_like_code(grants):
    asked = skill(action=Action("http", permissions=ASKED, settings={"url": "https://a.example/v1"}))
    assert needs_grant(asked)
    assert not grants.allows(asked)


@pytest.mark.parametrize("which", ["weather", "digest", "beginning"])
def test_a_grant_is_taken_back_by_name_or_digest(grants, which):
    kept, gone = skill(name="other"), skill(b"two")
    for asked in (kept, gone):
        grants.agree(asked, "ann")
    digest = str(gone.artifact.digest)
    named = {"weather": "weather", "digest": digest, "beginning": digest[: len("sha256:") + 12]}[which]
    assert [grant.digest for grant in grants.find(named)] == [digest]
    assert [grant.digest for grant in grants.take_back(named)] == [digest]
    assert not grants.allows(gone)
    assert grants.allows(kept)


@pytest.mark.parametrize("which", ["weather", "sha256:", "sha256:abc", "sha256:" + "0" * 64, "%", "\x1b[31m"])
def test_what_was_not_granted_cannot_be_taken_back(grants, which):
    grants.agree(skill(name="other"), "ann")
    with pytest.raises(NotFoundError) as caught:
        grants.take_back(which)
    assert caught.value.code == "GRANT_NOT_FOUND"
    assert "\x1b" not in caught.value.message
    assert len(grants.all()) == 1


def test_a_name_takes_back_every_version(grants):
    for content in (b"one", b"two"):
        grants.agree(skill(content), "ann")
    assert len(grants.take_back("weather")) == 2
    assert grants.all() == []


def test_what_changed_since_the_last_grant_of_the_same_name(grants):
    assert grants.changes(skill()) is None
    grants.agree(skill(action=Action("python", "main.py")), "ann")
    last = grants.agree(skill(b"two"), "bob")
    files = (SkillFile("SKILL.md", 3, Digest.of(b"other")), SkillFile("new.py", 1, Digest.of(b"x")))
    wanted = Permissions(("https://b.example", "https://a.example"), ("API_KEY", "NEW_KEY"))
    found = grants.changes(skill(b"three", files=files, action=Action("python", "new.py", permissions=wanted)))
    assert found is not None
    assert (found.since.digest, found.since.by) == (last.digest, "bob")
    assert (found.network, found.secrets) == (("https://b.example",), ("NEW_KEY",))
    assert (found.new, found.changed, found.gone) == (("new.py",), ("SKILL.md",), ("main.py",))
