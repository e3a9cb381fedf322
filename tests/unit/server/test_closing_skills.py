"""A skill that is being closed is closed, also when the edit that closes it breaks the folder. Over HTTP."""

from __future__ import annotations

import json

import pytest
import structlog
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.files import loading
from skillwire.errors import StorageError
from skillwire.folder.publish import prepare
from skillwire.server import app

INDEX = "/.well-known/agent-skills/index.json"
FILE = "/.well-known/agent-skills/plan/SKILL.md"
DESCRIPTOR = "/skills/plan.json"
HOST = {"Host": "skills.example.com"}
PUBLIC = 'access = "public"\n'


class Site:
    """A site that is looked at by hand, with one public skill that is called ``plan``."""

    def __init__(self, tmp_path, files):
        self.folder = write_skill(tmp_path / "skills", "plan", files)
        write_skill(tmp_path / "skills", "other")
        self.application = app([tmp_path / "skills"], blobs=tmp_path / "blobs", publisher="acme")
        self.publication = self.application.publication
        self.client = Asgi(self.application)
        self.look()

    def look(self):
        with structlog.testing.capture_logs() as log:
            self.publication._refresh(None)
        return log

    def write(self, **files):
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.look()

    async def statuses(self):
        return [(await self.client.get(path, HOST)).status for path in (FILE, DESCRIPTOR)]

    async def lists(self):
        paths = (INDEX, "/skills", "/.well-known/skill-sharing", "/api/search?q=plan")
        return ["plan" in (await self.client.get(path, HOST)).body.decode().replace("q=plan", "") for path in paths]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path, {"skill.toml": PUBLIC})


@pytest.mark.parametrize(
    "manifest",
    [
        'access = "privat"\n',
        "access = true\n",
        'access = "private"\ntagz = ["a"]\n',
        'access = "private\n',
        b'access = "private"\n# \xff\n',
        'acess = "private"\n',
        '[permissions]\nnetwork = []\naccess = "private"\n',
    ],
    ids=["value", "kind", "other key", "syntax", "bytes", "key", "below a table"],
)
async def test_what_is_closed_by_an_edit_that_breaks_it_is_closed(site, manifest):
    assert await site.statuses() == [200, 200]
    assert await site.lists() == [True] * 4
    log = site.write(skill_toml=manifest)
    assert await site.statuses() == [404, 404]
    assert await site.lists() == [False] * 4
    told = [event for event in log if event["event"] == "skill broken"]
    assert {event["log_level"] for event in told} == {"error"}
    assert {event["serving"] for event in told} == {"its last good version, now private"}
    site.write(skill_toml=PUBLIC)
    assert await site.statuses() == [200, 200]


async def test_a_descriptor_closes_what_its_skill_toml_leaves_open(tmp_path):
    site = Site(tmp_path, {})
    served = (await site.client.get(DESCRIPTOR, HOST)).json()
    site = Site(tmp_path, {"skill.toml": PUBLIC, "descriptor.json": json.dumps(served)})
    assert await site.statuses() == [200, 200]
    for text in (json.dumps({**served, "access": "private"}), json.dumps({**served, "access": ["private"]}), "{", "[]"):
        site.write(descriptor_json=text)
        assert await site.statuses() == [404, 404], text
        site.write(descriptor_json=json.dumps(served))
        assert await site.statuses() == [200, 200]


async def test_what_cannot_be_read_any_more_is_private(site):
    (site.folder / "skill.toml").unlink()
    (site.folder / "skill.toml").symlink_to("nowhere")
    site.look()
    assert await site.statuses() == [404, 404]
    (site.folder / "skill.toml").unlink()
    (site.folder / "skill.toml").mkdir()
    (site.folder / "skill.toml" / "a").touch()
    site.write(SKILL_md="no frontmatter")
    assert await site.statuses() == [404, 404]


async def test_what_is_restricted_by_an_edit_that_breaks_it_is_known_and_locked(site):
    site.write(skill_toml='access = "restricted"\n', SKILL_md="no frontmatter")
    assert await site.statuses() == [401, 200]  # its descriptor says how to be let in
    assert await site.lists() == [False, True, True, False]


async def test_what_is_broken_otherwise_goes_on_being_served(site):
    log = site.write(SKILL_md="no frontmatter")
    assert await site.statuses() == [200, 200]
    assert {event["log_level"] for event in log if event["event"] == "skill broken"} == {"warning"}
    site.write(skill_toml='access = "private"\n')
    assert await site.statuses() == [404, 404]
    site.write(skill_toml=PUBLIC)
    assert await site.statuses() == [200, 200]


async def test_what_was_closed_stays_closed_whatever_a_broken_folder_says(tmp_path):
    site = Site(tmp_path, {"skill.toml": 'access = "private"\n'})
    site.write(skill_toml=PUBLIC, SKILL_md="no frontmatter")
    assert await site.statuses() == [404, 404]
    (site.folder / "skill.toml").unlink()
    site.look()
    assert await site.statuses() == [404, 404]


async def test_a_folder_that_goes_on_changing_is_closed_all_the_same(site, monkeypatch):
    (site.folder / "skill.toml").write_text('access = "private"\n')

    def disturb(path, publisher, **_):
        prepared = prepare(path, publisher)
        with (path / "SKILL.md").open("a") as file:
            file.write("More.\n")
        return prepared

    monkeypatch.setattr(loading, "prepare", disturb)
    site.look()
    assert await site.statuses() == [404, 404]


async def test_a_worker_hands_on_who_may_see_what_it_refuses(tmp_path, monkeypatch):
    site = Site(tmp_path, {"skill.toml": PUBLIC})
    (site.folder / "skill.toml").write_text('access = "restricted"\ntagz = 1\n')
    monkeypatch.setattr(loading, "_WORTH_A_WORKER", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    (tmp_path / "skills" / "other" / "SKILL.md").write_text("no frontmatter")
    site.look()
    assert await site.statuses() == [401, 200]  # its descriptor says how to be let in


async def test_what_was_closed_before_another_folder_failed_is_not_forgotten(site, monkeypatch):
    (site.folder / "skill.toml").write_text('access = "privat"\n')
    load = loading.load_folders

    def fail_then(job, folders):
        yield from load(job, [folder for folder in folders if folder.endswith("plan")])
        raise StorageError("STORAGE", "no space left on device")

    monkeypatch.setattr("skillwire.server.folders.load_folders", fail_then)
    with pytest.raises(StorageError):
        site.publication.folders.refresh(None)
    monkeypatch.setattr("skillwire.server.folders.load_folders", lambda *_: [])
    site.look()
    assert await site.statuses() == [404, 404]
