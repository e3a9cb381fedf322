"""One digest of a skill on every path that carries it; another digest or another byte is refused before use."""

import json
from urllib.parse import urljoin, urlsplit

import pytest
from tests.support.fake_dht import FakeDhtAgent, dht_skill
from tests.support.fake_lan import lan_skill
from tests.support.publishing import Asgi, write_skill
from tests.support.registry_site import AsgiDriver

from skillwire import AsyncClient, SkillwireError
from skillwire.bridges.mcp.resources import DIGEST, resource_of
from skillwire.client.session import ClientSession
from skillwire.errors import SourceLocation
from skillwire.folder.publish import PreparedSkill, prepare_files
from skillwire.model.digest import Digest
from skillwire.model.skill import FileContent
from skillwire.resolver.settings import DiscoverySource, Settings
from skillwire.server import create_app

ORIGIN, HOST = "https://a.example", "a.example"
NEAR_HOST, NEAR = "192.168.1.5", "http://192.168.1.5:8000"
INDEX, SHARING = "/.well-known/agent-skills/index.json", "/.well-known/skill-sharing"
DESCRIPTOR, RPC, CENTER = "/skills/notes.json", "/rpc", "/api/skills/notes"
AT_ENDPOINT = f"{ORIGIN}{RPC}#local.notes"
SEARCH = "/api/skills/search"
NAMED, ARTIFACT = f"{ORIGIN}/notes", "artifact"
OTHER = f"sha256:{'0' * 64}"
DHT = {"enabled": True, "bootstrapNodes": [{"host": "192.0.2.1", "port": 6881}]}


class Tampering(AsgiDriver):
    """Replaces text in the answers of some paths."""

    def __init__(self, site, origin):
        super().__init__(site, origin)
        self.replaced = {}

    async def send(self, request):
        fields = {name: value for name, value in request.headers.items() if name != "If-None-Match"}
        at_origin = request._replace(headers=fields, url=request.url.replace(NEAR, ORIGIN))
        answer = (await super().send(at_origin))._replace(url=request.url)
        for path, (old, new) in self.replaced.items():
            if request.url.removeprefix(ORIGIN).removeprefix(NEAR) == path:
                body = answer.body.replace(old.encode(), new.encode())
                fields = {name: value for name, value in answer.headers.items() if name != "content-length"}
                answer = answer._replace(body=body, headers=fields)
        return answer


class Consumer:
    """A project whose client asks one publisher of the skill ``notes``."""

    def __init__(self, folder):
        write_skill(folder / "skills", "notes")
        self.folder, self.site = folder, Asgi(self.make_site(folder))
        self.driver = Tampering(self.site, ORIGIN)
        self.client = self.open()

    @staticmethod
    def make_site(folder):
        return create_app([folder / "skills"], base_url=ORIGIN, blobs=folder / "blobs", access_log=False)

    async def restart(self):
        await self.site.application.shutdown()
        self.site.application = self.make_site(self.folder)
        await self.site.application.startup()

    def open(self, sources=(), **options):
        tables = {"skillCenter": {"url": ORIGIN}, "dht": DHT}
        discovery = (DiscoverySource(tables, SourceLocation("test"), is_project=False),)
        settings = Settings(sources, trusted_origins=(HOST,), discovery=discovery)
        client = AsyncClient(self.folder, settings=settings, **options)
        client.driver = self.driver
        return client

    async def json(self, path, document=None):
        body = b"" if document is None else json.dumps(document).encode()
        fields = {"Content-Type": "application/json", "Host": HOST}
        answer = await self.site.request(path, fields, method="POST" if body else "GET", body=body)
        assert answer.status == 200, answer.body
        return answer.json()


@pytest.fixture
async def consumer(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(ClientSession, "make_dht_agent", lambda *_: FakeDhtAgent())
    consumer = Consumer(tmp_path)
    await consumer.site.application.startup()
    yield consumer
    await consumer.site.application.shutdown()


async def test_every_path_carries_the_same_digest(consumer):
    (listed,) = (await consumer.json(INDEX))["skills"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "describe_skill", "params": {"name": "local.notes"}}
    content = (consumer.folder / "skills" / "notes" / "SKILL.md").read_bytes()
    prepared = prepare_files("notes", (FileContent("SKILL.md", content),), "local")
    assert isinstance(prepared, PreparedSkill)
    skill = prepared.skill
    main = resource_of(skill, skill.files[0])
    stated = {
        "agent skills": listed["digest"],
        "skill sharing": (await consumer.json(SHARING))["skills"][0]["digest"],
        "descriptor": (await consumer.json(DESCRIPTOR))["digest"],
        "rpc": (await consumer.json(RPC, asked))["result"]["skill"]["digest"],
        "skill center": (await consumer.json(CENTER))["digest"],
        "search of a skill center": (await consumer.json(SEARCH, {"keywords": ["notes"]}))["skills"][0]["digest"],
        "local network": str((await on_lan(consumer.client)).digest),
        "mcp": main.model_dump(by_alias=True)["_meta"][DIGEST],
    }
    assert stated == dict.fromkeys(
        stated, str(Digest.of((await consumer.site.get(urlsplit(urljoin(ORIGIN + INDEX, listed["url"])).path)).body))
    )


async def test_a_skill_of_two_sources_is_listed_once(consumer):
    client = consumer.open(sources=(ORIGIN,))
    assert [(hit.ref.origin, hit.ref.shared is None) for hit, _ in await client.find("notes")] == [(ORIGIN, False)]
    assert {rung.name for rung in client.rungs if rung.outcome == "found"} == {"skillCenter", "named"}


async def add(client):
    await client.add(NAMED, consent=True)


async def show(client):
    await client.show(NAMED, both=True)


async def read_descriptor(client):
    await (await client.show(NAMED, both=True)).descriptor()


async def read_body(client):
    await (await client.show(AT_ENDPOINT)).body()


async def on_lan(client):
    return await client.lan.skill(lan_skill("notes", host=NEAR_HOST))


async def call_on_lan(client):
    await (await on_lan(client)).descriptor()


async def search_center(client):
    await client.find("notes")


async def show_at_endpoint(client):
    await client.show(AT_ENDPOINT, both=True)


#: what is tampered with (a path, and its text or else the digest), what reads it, the code of its refusal
TAMPERED = [
    (INDEX, None, add, "DIGEST_CONFLICT"),
    (INDEX, None, show, "DIGEST_CONFLICT"),
    (SHARING, None, show, "DIGEST_CONFLICT"),
    (DESCRIPTOR, None, read_descriptor, "DIGEST_CONFLICT"),
    (DESCRIPTOR, "sha256:", read_descriptor, "DIGEST_FORM"),
    (RPC, None, read_body, "DIGEST_MISMATCH"),
    (RPC, None, show_at_endpoint, "DIGEST_CONFLICT"),
    (RPC, "sha256:", show_at_endpoint, "DIGEST_FORM"),
    (RPC, "Do it.", read_body, "DIGEST_MISMATCH"),
    (ARTIFACT, "Do it.", add, "DIGEST_MISMATCH"),
    (SEARCH, None, search_center, "DIGEST_CONFLICT"),
    (INDEX, None, on_lan, "DIGEST_CONFLICT"),
    (SHARING, None, on_lan, "DIGEST_CONFLICT"),
    (DESCRIPTOR, None, call_on_lan, "DIGEST_CONFLICT"),
]


@pytest.mark.parametrize(("path", "text", "read", "code"), TAMPERED)
async def test_another_digest_or_byte_is_refused_before_use(consumer, path, text, read, code):
    listed = await consumer.client.show(NAMED, both=True)
    changes = (str(listed.digest), OTHER) if text is None else (text, "X" * len(text))
    consumer.driver.replaced[urlsplit(listed.url).path if path == ARTIFACT else path] = changes
    client = consumer.open(refresh=read is show)
    with pytest.raises(SkillwireError) as refused:
        await read(client)
    assert refused.value.code == code
    assert not list(consumer.folder.glob(".agents/skills/*"))


#: the documents of which the cache has a copy from before the publisher saved an edit without a new version
OF_BEFORE = [(INDEX,), (SHARING,), (DESCRIPTOR,), (INDEX, SHARING), (INDEX, DESCRIPTOR), (SHARING, DESCRIPTOR)]


@pytest.mark.parametrize("paths", OF_BEFORE)
@pytest.mark.parametrize("read", ["show", "call", "find"])
async def test_copies_of_two_moments_are_compared_again_with_fresh_ones(consumer, paths, read):
    before = await consumer.client.show(NAMED, both=True)
    await before.descriptor()
    edited = consumer.folder / "skills" / "notes" / "SKILL.md"
    edited.write_text(edited.read_text() + "One more line.\n")
    for path in {INDEX, SHARING, DESCRIPTOR} - set(paths):
        consumer.client._session.context.cache.drop(ORIGIN + path, None)
    await consumer.restart()
    if read == "call":
        assert "One more line." in (await consumer.client.call(NAMED)).output
        return
    skill = await consumer.client.show(NAMED) if read == "show" else (await consumer.client.find("notes"))[0][0]
    descriptor = await skill.descriptor()
    assert skill.digest == descriptor.digest != before.digest
    assert "One more line." in await skill.body()


async def test_a_digest_that_was_asked_for_is_not_replaced(consumer):
    before = await consumer.client.show(NAMED, both=True)
    consumer.driver.replaced[DESCRIPTOR] = (str(before.digest), OTHER)
    with pytest.raises(SkillwireError) as refused:
        await (await consumer.client.show(f"{NAMED}@{before.digest}")).descriptor()
    assert refused.value.code == "DIGEST_CONFLICT"


@pytest.mark.parametrize("stated", ["", "as published", OTHER])
async def test_the_digest_of_a_record_of_the_dht_is_that_of_what_its_server_publishes(consumer, monkeypatch, stated):
    published = (await consumer.client.show(NAMED)).digest
    record = dht_skill("notes", endpoint=ORIGIN, digest=str(published) if stated == "as published" else stated)
    monkeypatch.setattr(ClientSession, "make_dht_agent", lambda *_: FakeDhtAgent(record))
    async with consumer.open() as client:
        client.driver = consumer.driver
        if stated == OTHER:
            with pytest.raises(SkillwireError) as refused:
                await client.add("notes", consent=True)
            assert refused.value.code == "DIGEST_CONFLICT"
            assert not list(consumer.folder.glob(".agents/skills/*"))
            return
        report = await client.add("notes", consent=True)
        (found,) = await client.installed()
        assert (found.name, found.digest, found.origin) == ("notes", published, ORIGIN)
        assert not report.failed
