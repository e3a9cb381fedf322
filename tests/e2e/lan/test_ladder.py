"""Sources that die one after the other: each answer is right, says where it is from, and the last error what was tried.

The page of the documentation is played: its commands are typed, and show what the page shows. The long form asks many
questions at once while the real servers are killed, and prints how long the answers took.
"""

import asyncio
import json
import signal
import time
from collections import Counter
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.loopback_lan import discovery
from tests.support.pages import boxes, check, examples, play
from tests.support.publishing import ServeProcess, write_skill
from tests.support.registry_site import tar_gz

from skillwire import AsyncClient, SkillwireError

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "ladder.md"
ABOUT = "Looks up who works here. Use when somebody asks for a colleague."
TOML = 'version = "1.0.0"\ncapabilities = ["org-data-read"]\n'


NAMES = ("directory", "directory-of-rooms", "directory-of-cars", "directory-of-tools")


@pytest.fixture
def center(request, tmp_path):
    """Give a registry with the skills of the parameter, or one skill; the test kills it."""
    home = tmp_path / "center"
    made = run_command("registry", "init", "ann", "--json", cwd=tmp_path, env={"SKILLWIRE_HOME": str(home)})
    token = json.loads(made.out)["secret"]
    with ServeProcess("--registry", home=home) as server:
        connection = HTTPConnection(server.origin, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=30"}
        for name in getattr(request, "param", NAMES[:1]):
            files = {"skill.toml": TOML, "center.md": "Published in the SkillCenter.\n"}
            folder = write_skill(tmp_path / "made", name, files, description=ABOUT)
            content = tar_gz({one.name: one.read_bytes() for one in folder.iterdir()})
            connection.request("POST", "/api/registry/namespaces/ann/packages", content, headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
        connection.close()
        yield server
        server.process.kill()  # it may be stopped


def settings_for(place, center):
    """Return the page's settings, for this network and this SkillCenter."""
    written = next(box.text for box in boxes(PAGE) if box.title == "skillwire.toml")
    first, tables = written.split("\n", 1)
    return f"{first}\n{discovery(place.lan, patience=4000)}{tables}".replace("127.0.0.1:9000", center.origin)


@pytest.mark.spec("SDP-fallback")
def test_the_page_is_what_happens_when_sources_die_one_after_the_other(place, center, tmp_path):
    skill = write_skill(tmp_path / "skills", "directory", {"skill.toml": TOML}, description=ABOUT)
    provider = place.serve(skill.parent).started()
    home = tmp_path / "client"
    (home / "config").mkdir(parents=True)
    (home / "config" / "skillwire.toml").write_text(settings_for(place, center))
    project = tmp_path / "project"
    project.mkdir()
    addresses = {"127.0.0.1:8000": f"127.0.0.1:{provider.port}", "127.0.0.1:9000": center.origin}

    def follow(title):
        found = [one for box in boxes(PAGE) if box.title == title for one in examples(box.text)]
        check(play(found, project, addresses, home=home, user=tmp_path), len(found))

    follow("all sources work")
    provider.process.kill()
    provider.process.wait(PATIENCE)
    follow("the provider has crashed")
    center.process.kill()
    center.process.wait(PATIENCE)
    follow("the SkillCenter has crashed, too")
    for file in (home / "cache").rglob("*"):
        if file.is_file():
            file.unlink()
    follow("nothing is left")


class Load:
    """Asks many questions at once, each within ``budget`` seconds; ``published``: port → name → digest."""

    def __init__(self, client, published, *, at_once=24, budget=20.0):
        self.client, self.published, self.at_once, self.budget = client, published, at_once, budget
        self.wrong = []

    async def ask(self, number, dead):
        """Return the source of one answer and its seconds; ``dead`` are the ports that answer no more."""
        name, started = NAMES[number % len(NAMES)], time.monotonic()
        try:
            ref = (await self.client.show(name, timeout=self.budget)).ref
        except SkillwireError as error:
            is_explained = "rungs" in error.details
            self.wrong += [] if dead and is_explained else [(name, error)]
            return error.code, time.monotonic() - started
        port = urlsplit(ref.url).port
        is_right = (ref.name, ref.version, str(ref.digest)) == (name, "1.0.0", self.published[port].get(name))
        if not is_right or (port in dead and ref.freshness == "live"):
            self.wrong.append((name, ref))
        return "local network" if ref.lan is not None else f"SkillCenter, {ref.freshness}", time.monotonic() - started

    async def wave(self, title, dead=(), kill=None):
        """Ask, and ``kill`` a server while the questions run; print and return the sources of the answers."""
        asked = [asyncio.create_task(self.ask(number, dead)) for number in range(self.at_once)]
        if kill is not None:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            kill()
        answers = await asyncio.gather(*asked)
        slowest = max(seconds for _, seconds in answers)
        counts = dict(Counter(source for source, _ in answers))
        print(f"{title}: {len(answers)} questions, {counts}, slowest {slowest:.2f} s of {self.budget:g} s")  # noqa: T201  # what the test is run for
        return set(counts)


async def digests_at(server):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("POST", "/api/skills/search", b"{}", {"Content-Type": "application/json"})
    rows = json.loads(connection.getresponse().read())["skills"]
    connection.close()
    return {row["endpoint"].rpartition("/")[2]: row["digest"] for row in rows}


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.spec("SDP-fallback")
@pytest.mark.parametrize("center", [NAMES], indirect=True)
async def test_real_servers_that_are_killed_under_load_give_no_wrong_record(place, center, tmp_path, monkeypatch):
    for name in NAMES:
        write_skill(tmp_path / "skills", name, {"skill.toml": TOML}, description=ABOUT)
    provider = place.serve(tmp_path / "skills").started()
    home = tmp_path / "client"
    (home / "config").mkdir(parents=True)
    # A network and a SkillCenter that are silent take their whole time; the budget leaves as much to a busy machine.
    settings = f"{settings_for(place, center)}timeout = 3000\n"
    (home / "config" / "skillwire.toml").write_text(settings)
    monkeypatch.setenv("SKILLWIRE_HOME", str(home))
    published = {provider.port: await digests_at(provider), center.port: await digests_at(center)}
    async with AsyncClient(tmp_path) as client:
        load = Load(client, published)
        assert await load.wave("all work") == {"local network"}
        await load.wave("the provider is killed meanwhile", kill=provider.process.kill)
        assert await load.wave("the provider is dead", {provider.port}) <= {"SkillCenter, live", "SkillCenter, cached"}
        dead = {provider.port, center.port}
        stop, kill = partial(center.process.send_signal, signal.SIGSTOP), center.process.kill
        await load.wave("the SkillCenter is stopped meanwhile", {provider.port}, stop)
        assert await load.wave("the SkillCenter accepts connections and stays silent", dead) == {"SkillCenter, cached"}
        await load.wave("the SkillCenter is killed meanwhile", dead, kill)
        assert await load.wave("only the cache is left", dead) == {"SkillCenter, cached"}
        for file in (home / "cache").rglob("*"):
            if file.is_file():
                file.unlink()
        assert await load.wave("nothing is left", dead) == {"DISC_001"}
        again = place.serve(tmp_path / "skills", name="again").started()
        published[again.port] = await digests_at(again)
        await eventually_async(client.lan.discover, lambda found: any(one.port == again.port for one in found))
        assert await load.wave("the provider is back", dead) == {"local network"}
    assert load.wrong == []
