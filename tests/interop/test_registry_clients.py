"""Clients of other registries use ``skillwire serve --registry`` as they are."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.interop.hosting import Serve, behind_tls, get
from tests.interop.peers import find_peer, run, skillwire
from tests.interop.trees import tree, trees
from tests.support.eventually import eventually
from tests.support.registry_site import tar_gz, zipped

INDEX = "/.well-known/agent-skills/index.json"

pytestmark = pytest.mark.deep


class Registry:
    """A registry with one operator, ``ann``, and her token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("registry")
    (folder / "skills").mkdir()
    with Serve(folder / "skills", folder / "host", "--registry") as served:
        made = run(skillwire("registry", "init", "ann", "--json"), cwd=folder, home=folder / "host")
        yield Registry(served.url, json.loads(made)["secret"])


def write_skill(folder: Path, name: str, text: str = "Do it.\n", version: str = "1.0.0") -> Path:
    path = folder / name
    (path / "scripts").mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {name}\ndescription: Takes notes of meetings.\nmetadata:\n  version: {version}\n---\n\n"
    (path / "SKILL.md").write_text(head + text)
    for file in ("_a.md", "a-b.md", "B.md", "scripts/run.py"):
        (path / file).write_text(f"{file}\n")
    return path


def test_clawhub_publishes_finds_installs_updates_and_deletes(registry, tmp_path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    variables = {"CLAWHUB_SITE": registry.url, "CLAWHUB_WORKDIR": str(project)}

    def clawhub(*arguments: object, status: int = 0) -> str:
        command = [*find_peer("clawhub"), *map(str, arguments)]
        return run(command, cwd=project, home=home, variables=variables, status=status)

    assert "Logged in as @ann" in clawhub("login", "--token", registry.token)
    assert clawhub("whoami").strip() == "ann"
    skill = write_skill(tmp_path, "notes")
    assert "Published notes@1.0.0 (ann/notes@1.0.0)" in clawhub("publish", skill, "--version", "1.0.0")
    assert "notes@1.0.0 is already published" in clawhub("publish", skill)
    assert re.search(r"^notes v1\.0\.0 +@ann", clawhub("search", "notes"), re.MULTILINE)
    inspected = clawhub("inspect", "notes", "--versions", "--files")
    assert "Takes notes of meetings." in inspected
    assert "scripts/run.py" in inspected
    assert clawhub("inspect", "ann/notes", "--file", "SKILL.md") == (skill / "SKILL.md").read_text()
    assert "Installed notes v1.0.0" in clawhub("install", "notes")
    installed = project / "skills" / "notes"
    for file in ("SKILL.md", "_a.md", "a-b.md", "B.md", "scripts/run.py"):
        assert (installed / file).read_bytes() == (skill / file).read_bytes()
    (skill / "B.md").write_text("changed\n")
    assert "Published notes@1.0.1" in clawhub("publish", skill)
    assert "Updated notes -> v1.0.1" in clawhub("update", "notes")
    assert (installed / "B.md").read_text() == "changed\n"
    assert "up to date" in clawhub("update", "--all")
    assert "notes  v1.0.1" in clawhub("explore")
    (skill / "SKILL.md").write_text("---\nname: notes\n---\n")
    assert "notes/SKILL.md:1: DESCRIPTION_FORM" in clawhub("publish", skill, status=1)
    assert "Deleted notes version 1.0.1" in clawhub("delete", "notes", "--version", "1.0.1", "--yes")
    assert "Latest   1.0.0" in clawhub("inspect", "notes")
    assert "Deleted notes" in clawhub("delete", "notes", "--yes")
    assert "Skill not found" in clawhub("install", "notes", "--force", status=1)


def test_the_skills_cli_adds_a_namespace_a_package_and_a_version(registry, workplace, tmp_path):
    folders = {"1.0.0": tmp_path / "old", "1.1.0": tmp_path / "new"}
    for version, folder in folders.items():
        write_skill(folder, "agenda", f"Do {version}.\n", version)
        request = Request(  # noqa: S310  # this is our own server
            f"{registry.url}/api/registry/namespaces/ann/packages",
            tar_gz({str(path.relative_to(folder / "agenda")): path.read_bytes() for path in files_of(folder)}),
            {"Authorization": f"Bearer {registry.token}"},
        )
        with urlopen(request) as answer:  # noqa: S310  # http, to ourselves
            assert answer.status == 201
    for scope, version in (("@ann", "1.1.0"), ("@ann/agenda", "1.1.0"), ("@ann/agenda@1.0.0", "1.0.0")):
        shutil.rmtree(workplace.installed, ignore_errors=True)
        eventually(partial(listed, f"{registry.url}/{scope}{INDEX}"))
        workplace.skills("add", f"{registry.url}/{scope}", "-a", "codex", "-y", "--copy", "--skill", "agenda")
        assert trees(workplace.installed) == {"agenda": tree(folders[version] / "agenda")}


def listed(url: str) -> list[Any]:
    return list(json.loads(get(url).body)["skills"])


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_sdk_of_anthropic_creates_lists_fetches_and_versions_skills(registry, tmp_path):
    head = '---\nname: minutes\ndescription: "Takes notes of meetings."\n---\n\nDo it.\n'
    files = {"minutes/SKILL.md": head, "minutes/a.txt": "a\n", "broken/SKILL.md": "---\nname: broken\n---\n"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    command = [*find_peer("anthropic"), registry.url, registry.token, str(tmp_path)]
    found = json.loads(run(command, cwd=tmp_path, home=tmp_path))
    assert (found["created"]["id"], found["created"]["latest_version_id"]) == ("ann--minutes", "0.1.0")
    assert (found["version"]["id"], found["retrieved"]) == ("0.1.1", "0.1.1")
    assert "ann--minutes" in found["listed"]  # page after page, among those of other tests
    assert found["versions"] == ["0.1.1", "0.1.0"]
    assert found["described"] == "Takes notes of meetings."
    assert found["content"] == {"minutes/SKILL.md": head, "minutes/a.txt": "changed\n"}
    assert (found["broken"]["kind"], found["broken"]["status"]) == ("UnprocessableEntityError", 422)
    assert "broken/SKILL.md:1: DESCRIPTION_FORM" in found["broken"]["message"]
    assert (found["version_deleted"], found["left"]) == ("skill_version_deleted", ["0.1.0"])
    assert (found["deleted"], found["gone"]["kind"]) == ("skill_deleted", "NotFoundError")


def test_the_sdk_of_openai_creates_lists_fetches_and_versions_skills(registry, tmp_path):
    head = '---\nname: {}\ndescription: "Reviews meetings."\n---\n\nDo it.\n'
    files = {
        "review/SKILL.md": head.format("review"),
        "review/a.txt": "a\n",
        "broken/SKILL.md": "---\nname: broken\n---\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    changed = {"SKILL.md": head.format("review"), "a.txt": "changed\n"}
    (tmp_path / "review.zip").write_bytes(zipped(changed, "review"))
    (tmp_path / "other.zip").write_bytes(zipped({"SKILL.md": head.format("other")}))
    command = [*find_peer("openai"), registry.url, registry.token, str(tmp_path)]
    found = json.loads(run(command, cwd=tmp_path, home=tmp_path))
    made = found["created"]
    assert (made["id"], made["name"], made["description"]) == ("ann--review", "review", "Reviews meetings.")
    assert (made["default_version"], made["latest_version"], made["object"]) == ("0.1.0", "0.1.0", "skill")
    assert type(made["created_at"]) is int
    assert (found["zipped"]["version"], found["zipped"]["object"], found["again"]) == (
        "0.1.1",
        "skill.version",
        "0.1.2",
    )
    assert (found["zipped"]["id"], found["zipped"]["skill_id"]) == ("0.1.1", "ann--review")
    assert found["described"] == found["zipped"]
    assert found["other"] == "ann--other"
    assert found["retrieved"] == {**made, "default_version": "0.1.2", "latest_version": "0.1.2"} | {
        name: found["retrieved"][name] for name in ("latest_version_id", "updated_at")
    }
    assert {"ann--review", "ann--other"} <= set(found["listed"])  # page after page, among those of other tests
    assert found["listed"] == sorted(set(found["listed"]))
    assert (found["versions"], found["ascending"]) == (["0.1.2", "0.1.1", "0.1.0"], ["0.1.0", "0.1.1", "0.1.2"])
    page = found["first_page"]
    assert (page["object"], page["first_id"], page["last_id"], page["has_more"]) == ("list", "0.1.2", "0.1.1", True)
    assert found["content"] == {path: text for path, text in files.items() if path.startswith("review/")}
    assert found["zipped_content"] == {f"review/{path}": text for path, text in changed.items()}
    assert found["default_content"] == {"review/SKILL.md": head.format("review")}
    assert (found["default_set"], found["default_left"]) == ("0.1.2", "0.1.1")
    for refused in (found["default_refused"], found["no_default"]):
        assert (refused["kind"], refused["code"]) == ("BadRequestError", "QUERY")
        assert "the default version is always the latest" in refused["message"]
    assert (found["ordered"]["kind"], found["ordered"]["type"]) == ("BadRequestError", "invalid_request_error")
    deleted = found["version_deleted"]
    assert (deleted["version"], deleted["object"], deleted["deleted"]) == ("0.1.2", "skill.version.deleted", True)
    assert (found["broken"]["kind"], found["broken"]["code"]) == ("UnprocessableEntityError", "SKILL_INVALID")
    assert "broken/SKILL.md:1: DESCRIPTION_FORM" in found["broken"]["message"]
    assert (found["absent"]["kind"], found["absent"]["code"]) == ("NotFoundError", "VERSION_NOT_FOUND")
    assert "ann/review has no version '9.9.9'" in found["absent"]["message"]
    assert found["unknown"]["kind"] == "AuthenticationError"
    assert (found["deleted"]["object"], found["deleted"]["deleted"]) == ("skill.deleted", True)
    assert (found["gone"]["kind"], found["gone"]["code"]) == ("NotFoundError", "PACKAGE_NOT_FOUND")


def test_apm_publishes_lists_and_installs(registry, tmp_path):
    project, publisher, home = (tmp_path / name for name in ("project", "publisher", "home"))
    for folder in (project, publisher, home):
        folder.mkdir()
    with behind_tls(registry.url, tmp_path) as (url, authority):
        trusted = {"SSL_CERT_FILE": str(authority), "REQUESTS_CA_BUNDLE": str(authority)}
        variables = {**trusted, "APM_REGISTRY_TOKEN_TEAM": registry.token}

        def apm(cwd: Path, *arguments: object, status: int = 0) -> str:
            command = [*find_peer("apm"), *map(str, arguments)]
            return " ".join(run(command, cwd=cwd, home=home, variables=variables, status=status).split())

        def declare(folder: Path, version: str, more: str = "") -> None:
            registries = f"registries:\n  team:\n    url: {url}\n  default: team\n"
            (folder / "apm.yml").write_text(f"name: memo\nversion: {version}\nlicense: MIT\n{registries}{more}")

        apm(home, "experimental", "enable", "registries")
        apm(home, "config", "set", "registry.team.url", url)
        declare(publisher, "1.0.0")
        skill = write_skill(publisher / ".apm" / "skills", "memo")
        assert "Published ann/memo@1.0.0" in apm(publisher, "publish", "--package", "ann/memo")
        assert "already exists" in apm(publisher, "publish", "--package", "ann/memo", status=1)
        declare(project, "1.0.0")
        assert "1.0.0" in apm(project, "view", "ann/memo", "versions")
        declare(project, "1.0.0", "dependencies:\n  apm:\n    - ann/memo#^1.0.0\n")
        apm(project, "install", "--target", "claude")
        for file in ("SKILL.md", "_a.md", "a-b.md", "B.md", "scripts/run.py"):
            assert (project / ".claude" / "skills" / "memo" / file).read_bytes() == (skill / file).read_bytes()
        (skill / "SKILL.md").write_text("---\nname: memo\n---\n")
        declare(publisher, "1.1.0")
        assert "memo/SKILL.md:1: DESCRIPTION_FORM" in apm(publisher, "publish", "--package", "ann/memo", status=1)
