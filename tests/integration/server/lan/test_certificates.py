"""A server that certifies others: it renews what is good, refuses the rest, and gives out the signed list."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs
from tests.support.publishing import Asgi

from skillwire import limits
from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.files.lan_trust import load_trust
from skillwire.adapters.lan.connection_secrets import SceneSecrets, SecretsClient
from skillwire.errors import NotFoundError, SkillwireError
from skillwire.model.lan import LanSkill
from skillwire.protocols.skill_discovery.credentials import (
    CERTIFICATES_PATH,
    REVOCATIONS_PATH,
    read_issued,
    write_renewal,
)
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server import create_app
from skillwire.server.routes import lan
from skillwire.trust.certificates import RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, new_key


@pytest.fixture
def authority(tmp_path):
    return AuthorityFolder.create(tmp_path / "ca", "Example", time.time())


@pytest.fixture
async def site(skills, tmp_path, tokens, authority):  # noqa: ARG001  # the state folder first
    application = create_app([skills], blobs=tmp_path / "blobs", lan=LanSettings(authority=str(authority.folder)))
    yield Asgi(application)
    await application.shutdown()


async def test_a_certificate_is_renewed(site, authority):
    key, names, now = new_key(), RequestedNames(("agent-001",), (), ()), time.time()
    short = 200 / 86_400  # it begins five minutes ago, as clocks differ, so that more than half of it is over
    identity = EcdsaIdentity(key, authority.issue(names, key.public_key(), now, days=short))
    question = write_renewal(identity, key, names, now)
    answer = await site.request(CERTIFICATES_PATH, method="POST", body=question)
    assert answer.status == 200
    renewed = read_issued(answer.body)
    assert renewed != identity.certificate
    assert len(authority.book().rows[1:]) == 2


async def test_questions_are_bounded(site, monkeypatch):
    answer = await site.request(CERTIFICATES_PATH, method="POST", body=b"a" * (limits.LAN_RENEWAL_BYTES + 1))
    assert (answer.status, answer.json()["error"]["code"]) == (413, "LIMIT_SIZE")
    monkeypatch.setattr(lan, "_RENEWALS_WAITING", 0)
    assert (await site.request(CERTIFICATES_PATH, method="POST", body=b"{}")).status == 503


async def test_many_are_answered_one_after_the_other(site):
    asked = [site.request(CERTIFICATES_PATH, method="POST", body=b"{}") for _ in range(8)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {400}


async def test_the_list_is_everybodys(site, authority):
    answer = await site.get(REVOCATIONS_PATH)
    assert (answer.status, answer.body) == (200, authority.revocations_file.read_bytes())
    assert answer.body.startswith(b"-----BEGIN X509 CRL-----")
    assert (await site.request(REVOCATIONS_PATH, method="HEAD")).body == b""
    assert (await site.request(REVOCATIONS_PATH, method="POST")).status == 405
    assert (await site.get(CERTIFICATES_PATH)).status == 405
    assert (await site.request(CERTIFICATES_PATH, method="OPTIONS")).status == 204


async def test_a_server_without_an_authority_has_no_such_doors(serve):
    site = await serve()
    for path in (CERTIFICATES_PATH, REVOCATIONS_PATH):
        assert (await site.get(path)).status == 404


def test_an_authority_that_is_not_there_is_said_at_once(skills, tmp_path, tokens):  # noqa: ARG001  # as above
    with pytest.raises(NotFoundError, match="CA_FOLDER"):
        create_app([skills], blobs=tmp_path / "blobs", lan=LanSettings(authority=str(tmp_path / "none")))


ANNOUNCED = {("skill-leads", "auth"): "leads-sync"}


@pytest.fixture
async def handing_out(tokens, tmp_path):
    """Return what opens the port, by the settings; and what asks there."""
    running = []

    async def begin(**options):
        settings = LanSettings(agent_id="agent-001", **options)
        trust = load_trust(settings, folder=tmp_path / "provider")
        secrets = SceneSecrets(settings, lambda: tokens.wrapped, lambda *asked: ANNOUNCED.get(asked))
        running.append(secrets)
        port = await secrets.start(trust, "127.0.0.1")
        other = load_trust(LanSettings(agent_id="agent-002"), folder=tmp_path / "member")
        client = SecretsClient("agent-002", other.identity, other.authority, use_unverified=True)

        async def ask(skill_id="skill-leads", scene="auth"):
            skill = LanSkill("agent-001", skill_id, "1.0.0", "tool-skill", "127.0.0.1", 8000)
            return await client.fetch(skill, port, scene)

        return port, ask

    yield begin
    for secrets in running:
        await secrets.stop()


async def test_keys_are_handed_out_at_the_configured_port(handing_out):
    port, _ = await handing_out()
    with capture_logs() as logs:
        assert (await handing_out(tls_port=port))[0] == 0, "it is this very port that is in use"
    (logged,) = logs
    assert (logged["event"], logged["port"]) == ("connection secrets are not handed out", port)


async def test_what_is_not_announced_in_the_scene_has_none(handing_out):
    _, ask = await handing_out(use_unverified=True)
    for asked in (("skill-leads", "other"), ("omega-plan", "auth")):
        with pytest.raises(SkillwireError, match="no such skill is offered here"):
            await ask(*asked)


async def test_with_a_group_key_there_is_no_such_port(tokens, tmp_path):
    (tmp_path / "group.key").write_bytes(b"a secret that all of us share, long enough")
    (tmp_path / "group.key").chmod(0o600)
    settings = LanSettings(agent_id="agent-001", group_key_file=str(tmp_path / "group.key"))
    secrets = SceneSecrets(settings, lambda: tokens.wrapped, lambda *_: None)
    assert await secrets.start(load_trust(settings, folder=tmp_path / "keys"), "127.0.0.1") == 0
    await secrets.stop()


async def test_an_address_that_is_none_of_ours_is_said_and_nothing_ends(tokens, tmp_path):
    settings = LanSettings(agent_id="agent-001")
    secrets = SceneSecrets(settings, lambda: tokens.wrapped, lambda *_: None)
    assert await secrets.start(load_trust(settings, folder=tmp_path / "keys"), "192.0.2.7") == 0


class FakeKeys:
    """Stands in for what hands out keys."""

    def __init__(self):
        self.events = []

    async def start(self, _, host):
        self.events.append(("start", host))
        return 8443

    async def stop(self):
        self.events.append(("stop",))


async def test_the_port_is_open_from_the_first_skill_in_a_scene_to_the_end(serve, skills):
    (skills / "leads-sync" / "skill.toml").write_text("")
    site, keys = await serve(begin=False), FakeKeys()
    asked = []

    def make(_, skill_name):
        asked.append(skill_name)
        return keys

    site.lan._make_secrets = make
    await site.application.startup()
    await site.until(lambda agent: agent.announced)
    assert (site.lan.tls_port, keys.events) == (0, [])
    (skills / "leads-sync" / "skill.toml").write_text('scenes = ["auth"]\n')
    await site.until(lambda agent: agent.announced == 2)
    assert (site.lan.tls_port, keys.events) == (8443, [("start", "")])
    (skill_name,) = asked
    assert skill_name("leads-sync", "auth") == "leads-sync"
    assert skill_name("leads-sync", "home") is None
    assert skill_name("omega-plan", "auth") is None
    await site.application.shutdown()
    assert (site.lan.tls_port, keys.events[-1]) == (0, ("stop",))
