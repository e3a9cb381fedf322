"""Sources that die one after the other: each answer is right, says where it is from, and the last error what was tried.

The page of the documentation is played: its commands are typed, and show what the page shows.
"""

import json
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.loopback_lan import discovery
from tests.support.pages import boxes, check, examples, play
from tests.support.publishing import ServeProcess, write_skill
from tests.support.registry_site import tar_gz

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "ladder.md"
ABOUT = "Looks up who works here. Use when somebody asks for a colleague."
TOML = 'version = "1.0.0"\ncapabilities = ["org-data-read"]\n'


@pytest.fixture
def center(tmp_path):
    """Give a registry with the skill, which the test kills."""
    home = tmp_path / "center"
    made = run_command("registry", "init", "ann", "--json", cwd=tmp_path, env={"SKILLWIRE_HOME": str(home)})
    token = json.loads(made.out)["secret"]
    with ServeProcess("--registry", home=home) as server:
        connection = HTTPConnection(server.origin, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=30"}
        folder = write_skill(tmp_path / "made", "directory", {"skill.toml": TOML}, description=ABOUT)
        content = tar_gz({one.name: one.read_bytes() for one in folder.iterdir()})
        connection.request("POST", "/api/registry/namespaces/ann/packages", content, headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()
        yield server


@pytest.mark.timeout(240)
@pytest.mark.spec("SDP-fallback")
def test_the_page_is_what_happens_when_sources_die_one_after_the_other(place, center, tmp_path):
    skill = write_skill(tmp_path / "skills", "directory", {"skill.toml": TOML}, description=ABOUT)
    provider = place.serve(skill.parent).started()
    home = tmp_path / "client"
    (home / "config").mkdir(parents=True)
    written = next(box.text for box in boxes(PAGE) if box.title == "skillwire.toml")
    first, tables = written.split("\n", 1)
    settings = f"{first}\n{discovery(place.lan)}{tables}".replace("127.0.0.1:9000", center.origin)
    (home / "config" / "skillwire.toml").write_text(settings.replace("patience = 1500", "patience = 2000"))
    project = tmp_path / "project"
    project.mkdir()
    addresses = {"127.0.0.1:8000": f"127.0.0.1:{provider.port}", "127.0.0.1:9000": center.origin}

    def follow(title):
        found = [one for box in boxes(PAGE) if box.title == title for one in examples(box.text)]
        check(play(found, project, addresses, home=home, user=tmp_path), len(found))

    follow("all sources work")
    provider.process.kill()
    follow("the provider has crashed")
    center.process.kill()
    follow("the SkillCenter has crashed, too")
    for file in (home / "cache").rglob("*"):
        if file.is_file():
            file.unlink()
    follow("nothing is left")
