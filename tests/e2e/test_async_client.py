"""The asynchronous client against a real server: the same verbs, and a loop that is never blocked."""

import asyncio
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from tests.support.publishing import serving

from skillwire import AsyncClient, Client, SkillwireError

EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    with serving(EXAMPLES, tmp_path_factory.mktemp("server")) as address:
        yield address


async def test_levels_and_adding(origin, tmp_path):
    async with AsyncClient(tmp_path) as client:
        with blockbuster_ctx("skillwire"):
            skills = await client.index(origin)
            assert len(skills) == len(list(EXAMPLES.glob("*/SKILL.md")))
            skill = await client.show(f"{origin}/csv-profile")
            assert (await skill.body()).strip()
            assert await skill.open("SKILL.md") == (EXAMPLES / "csv-profile/SKILL.md").read_bytes()
            report = await client.add(
                f"{origin}/csv-profile", f"{origin}/log-triage", agents=["universal"], consent=True
            )
    assert [locked.name for locked in report.installed] == ["csv-profile", "log-triage"]
    assert (tmp_path / ".agents/skills/log-triage/SKILL.md").is_file()


async def test_both_clients_install_the_same(origin, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    async with AsyncClient(folders[0]) as client:
        await client.add(origin, agents=["universal"], consent=True)
    with Client(folders[1]) as other:
        await asyncio.to_thread(lambda: other.add(origin, agents=["universal"], consent=True))
    trees = [
        {str(path.relative_to(folder)): path.read_bytes() for path in (folder / ".agents").rglob("*") if path.is_file()}
        for folder in folders
    ]
    assert trees[0] == trees[1]
    assert trees[0]


async def test_both_clients_tell_of_what_comes(origin, tmp_path):
    def keep(told):
        return lambda host, size: told.append((host, size))

    one: list[tuple[str, int]] = []
    two: list[tuple[str, int]] = []
    async with AsyncClient(tmp_path, on_traffic=keep(one), refresh=True) as client:
        body = await (await client.show(f"{origin}/csv-profile")).open("SKILL.md")
    with Client(tmp_path, on_traffic=keep(two), refresh=True) as other:
        await asyncio.to_thread(other.index, origin)
    assert [size for _, size in one].count(0) == 2, "one for each request"
    assert [size for _, size in two].count(0) == 1
    assert {host for host, _ in one + two} == {origin}
    assert sum(size for _, size in one) > len(body) // 4, "compressed, but there"
    assert sum(size for _, size in two) > 0


async def test_errors_are_the_same(origin, tmp_path):
    async with AsyncClient(tmp_path) as client:
        with pytest.raises(SkillwireError) as caught:
            await client.show(f"{origin}/csv-profil")
    assert caught.value.code == "SKILL_NOT_FOUND"


async def test_one_client_serves_many_at_once(origin, tmp_path):
    async with AsyncClient(tmp_path) as client:
        bodies = await asyncio.gather(*(body_of(client, f"{origin}/{name.name}") for name in EXAMPLES.iterdir()))
    assert all(bodies)


async def body_of(client, reference):
    return await (await client.show(reference)).body()
