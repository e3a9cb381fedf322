"""Two registries of one database: each serves what the other one publishes, and hides what it hides."""

import pytest
from tests.support.eventually import eventually_async
from tests.support.registry_site import RegistrySite

from skillwire.server import catalog_service

FILE = "/.well-known/agent-skills/notes/SKILL.md"


@pytest.fixture(params=["sqlite", "postgres"])
async def servers(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    if request.param == "postgres":
        monkeypatch.setenv("SKILLWIRE_STORE", request.getfixturevalue("postgres_url"))
    monkeypatch.setattr(catalog_service, "_LONGEST_POLL", 3600.0)
    both = [RegistrySite(tmp_path / name) for name in ("first", "second")]
    await both[0].account("ann")
    both[1].tokens = both[0].tokens
    for one in both:
        await one.application.startup()
        await one.application.catalog.first(45.0)
    yield both
    for one in both:
        await one.application.shutdown()


async def test_each_serves_and_hides_what_the_other_one_changes(servers):
    async def status():
        return [(await one.get(FILE)).status for one in servers]

    first, second = servers
    await first.publish("ann")
    await eventually_async(status, lambda found: found == [200, 200])
    await second.call("PATCH", "/packages/ann/notes", {"access": "private"}, by="ann")
    await eventually_async(status, lambda found: found == [404, 404])


async def test_a_server_alone_reads_each_of_its_changes_once(servers):
    first, second = servers
    await second.application.shutdown()
    looked, look = [], first.application.catalog.folders.packages.changes

    def count():
        looked.append(changed := look())
        return changed

    first.application.catalog.folders.packages.changes = count
    await first.publish("ann")
    await eventually_async(lambda: first.get(FILE), lambda found: found.status == 200)
    assert [len(one.packages) for one in looked if one.packages] == [1]
