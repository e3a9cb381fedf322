"""A scene that nobody provides: a registry is asked as SkillCenter, the chosen skill provides it. Spec: SDP §4.2."""

import json
from http.client import HTTPConnection

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.loopback_lan import discovery, own_lan
from tests.support.publishing import ServeProcess
from tests.support.registry_site import skill_archive

from skillwire import Client

DIRECTORY = 'scenes = ["auth"]\ncapabilities = ["org-data-read", "user-auth"]\n'


@pytest.fixture(scope="module")
def center(tmp_path_factory):
    """Serve a registry with three skills; two have the scene, one of them both capabilities."""
    home = tmp_path_factory.mktemp("center")
    made = run_command("registry", "init", "ann", "--json", cwd=home, env={"SKILLWIRE_HOME": str(home)})
    token = json.loads(made.out)["secret"]
    with ServeProcess("--registry", home=home) as server:
        for name, toml in (
            ("directory", DIRECTORY),
            ("sign-in", 'scenes = ["auth"]\ncapabilities = ["user-auth"]\n'),
            ("other", 'scenes = ["office"]\n'),
        ):
            connection = HTTPConnection(server.origin, timeout=PATIENCE)
            headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=30"}
            content = skill_archive(name, skill_toml=toml)
            connection.request("POST", "/api/registry/namespaces/ann/packages", content, headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            connection.close()
        yield server


@pytest.fixture
def project(tmp_path, monkeypatch, center):
    (tmp_path / "config").mkdir()
    settings = f'{discovery(own_lan())}\n[discovery.skillCenter]\nurl = "http://{center.origin}"\n'
    (tmp_path / "config/skillwire.toml").write_text(settings)
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.spec("SDP-center-scene")
def test_the_chosen_skill_of_the_center_provides_the_scene(project):
    offered = []

    def choose(found):
        offered.extend(found)
        return found[0]

    with Client(project) as client:
        result = client.lan.request_scene("auth", ["org-data-read", "user-auth"], choose=choose)
        assert [skill.name for skill in offered] == ["directory"]
        assert (result.is_joined, result.group_id, result.skill_id) == (True, "group-auth-001", "directory")
        assert (
            result.connection_info["endpoint"] == f"{result.connection_info['host']}:{result.connection_info['port']}"
        )
        assert [one.name for one in client.installed()] == ["directory"]
        again = client.lan.request_scene("auth", use_unverified=True, choose=lambda _: pytest.fail("it is provided"))
        assert again.skill_id == "directory"


@pytest.mark.spec("SDP-center-scene")
@pytest.mark.parametrize(("scene", "seen"), [("auth", ["directory", "sign-in"]), ("nothing", None)])
def test_nothing_is_installed_where_none_is_chosen(project, scene, seen):
    offered = None

    def choose(found):
        nonlocal offered
        offered = sorted(skill.name for skill in found)

    with Client(project) as client:
        result = client.lan.request_scene(scene, choose=choose)
        assert (result.is_joined, offered, client.installed()) == (False, seen, [])
