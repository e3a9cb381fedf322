"""The doors of a server on the LAN: who may see what."""

import pytest
from tests.support.console_browser import Browser
from tests.support.fake_lan_agent import lan_skill, no_network
from tests.support.publishing import Asgi

from skillwire.cli.lan_view import lan_object
from skillwire.model.lan import FoundVia, LanMember, LanScene
from skillwire.server import create_app
from skillwire.server.lan import service

SECRETS = ("omega-plan", "staff-guide")


async def test_everybody_learns_who_announces_these_skills(serve):
    site = await serve()
    answer = await site.get("/.well-known/skill-discovery")
    assert (answer.status, answer.json()) == (200, {"agentId": "agent-001"})
    assert answer.fields["access-control-allow-origin"] == "*"
    assert answer.fields["cache-control"] == "no-store"
    site.lan.tls_port = 8443
    assert (await site.get("/.well-known/skill-discovery")).json() == {"agentId": "agent-001", "tlsPort": 8443}
    head = await site.request("/.well-known/skill-discovery", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert (await site.request("/.well-known/skill-discovery", method="POST")).status == 405


async def test_without_a_network_it_says_why(serve, monkeypatch, operator):
    monkeypatch.setattr(service, "_RETRY_SECONDS", 60.0)
    site = await serve(failures=[no_network()])
    await site.until(lambda _: site.lan.trouble)
    answer = await site.get("/.well-known/skill-discovery")
    assert (answer.status, answer.json()["error"]["code"]) == (503, "LAN_UNAVAILABLE")
    told = (await site.get("/lan.json", operator("operator"))).json()
    assert told == {"agentId": None, "trouble": "no interface is up that takes multicast", "skills": [], "scenes": []}


async def test_a_server_that_is_not_on_the_lan_has_none_of_it(skills, tmp_path, operator):
    application = create_app([skills], blobs=tmp_path / "blobs")
    await application.catalog.first(0.0)
    try:
        for path in ("/lan.json", "/.well-known/skill-discovery"):
            assert (await Asgi(application).get(path, operator("operator"))).status == 404
    finally:
        await application.shutdown()


async def test_the_network_is_shown_to_operators_alone(serve, operator):
    site, path = await serve(), "/lan.json"
    answer = await site.get(path)
    assert (answer.status, answer.json()["error"]["code"]) == (401, "AUTH_REQUIRED")
    assert "www-authenticate" in answer.fields
    assert (await site.get(path, operator())).status == 403
    assert (await site.get(path, operator("tasks"))).status == 403
    assert (await site.get(path, {"X-API-Key": "sw_nonsense"})).status == 401
    assert (await site.request(path, operator("operator"), method="POST")).status == 405


async def test_an_operator_sees_all_of_it(serve, operator):
    site = await serve()
    known = {"capabilities": ("org-data-read",), "scenes": ("auth",), "status": "HEALTHY", "heard": 99.0}
    site.agent.skills = [lan_skill(**known, is_verified=True, found_via=FoundVia.MDNS)]
    site.agent.scenes = [LanScene("auth", "group-auth-001", (LanMember("agent-002", "leads-sync", "PRIMARY"),))]
    answer = await site.get("/lan.json", operator("operator"))
    assert answer.status == 200
    assert "no-store" in answer.fields["cache-control"]
    assert "access-control-allow-origin" not in answer.fields
    assert answer.json() == {
        "agentId": "agent-001",
        "at": 100.0,
        "isSuspected": False,
        "skills": [
            {
                "agentId": "agent-002",
                "skillId": "leads-sync",
                "version": "1.0.0",
                "skillType": "tool-skill",
                "endpoint": "192.0.2.7:8000",
                "capabilities": ["org-data-read"],
                "scenes": ["auth"],
                "status": "HEALTHY",
                "trust": "verified",
                "foundVia": "mdns",
                "heard": 99.0,
                "isStale": False,
            }
        ],
        "scenes": [
            {
                "sceneId": "auth",
                "groupId": "group-auth-001",
                "members": [{"agentId": "agent-002", "skillId": "leads-sync", "role": "PRIMARY"}],
            }
        ],
        "counters": {"forged": 2},
    }


async def test_somebody_who_signed_in_as_an_operator_sees_it(serve, tokens):
    site = await serve()
    for scopes, status in (((), 401), (("tasks",), 401), (("operator",), 200)):
        browser = Browser(site.application)
        assert (await browser.sign_in(tokens.issue("ann", scopes=scopes).secret)).status == 303
        assert (await browser.get("/lan.json")).status == status


async def test_nothing_of_a_closed_skill_is_told_to_anybody(serve, operator):
    site = await serve()
    told = [str(site.agent.offers), str(site.agent.reports)]
    paths = ("/lan.json", "/.well-known/skill-discovery", "/metrics")
    told += [(await site.get(path, operator("operator"))).body.decode() for path in paths]
    for secret in SECRETS:
        assert not any(secret in text for text in told)


async def test_the_network_is_counted_and_nobody_named(serve):
    site = await serve()
    site.agent.skills = [lan_skill(status="HEALTHY"), lan_skill("other", status="HEALTHY"), lan_skill("third")]
    text = (await site.get("/metrics")).body.decode()
    assert 'skillwire_lan_skills{status="HEALTHY"} 2.0' in text
    assert 'skillwire_lan_skills{status="UNKNOWN"} 1.0' in text
    assert "skillwire_lan_datagrams_total 7.0" in text
    assert 'skillwire_lan_dropped_total{reason="forged"} 2.0' in text
    assert "agent-002" not in text
    assert "leads-sync" not in text


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"is_verified": True}, "verified"),
        ({"is_verified": True, "found_via": FoundVia.CACHE, "status": "UNKNOWN"}, "verified"),
        ({}, "unverified"),
        ({"found_via": FoundVia.MDNS}, "not known"),
        ({"agent_id": ""}, "not known"),
        ({"found_via": FoundVia.CACHE, "status": "UNKNOWN"}, "not known"),
    ],
)
async def test_trust_is_told_in_the_word_of_the_lists(serve, operator, values, word):
    site = await serve()
    site.agent.skills = [lan_skill()._replace(**{"is_verified": False, "status": "HEALTHY", **values})]
    (told,) = (await site.get("/lan.json", operator("operator"))).json()["skills"]
    assert told["trust"] == word == lan_object(site.agent.skills[0])["trust"]
