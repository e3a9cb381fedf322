"""The agent card: every field that A2A 1.0 requires, and nothing that is not so."""

import json

from tests.support.catalogs import make_skill

from skillwire.bridges.listings import RPC_BINDING, SHARING_BINDING, encode_card, executed
from skillwire.model.skill import Action

SITE = "https://skills.example.com"
ACTION = Action("python", "main.py")
INTERFACES = [("/.well-known/skill-sharing", SHARING_BINDING), ("/rpc", RPC_BINDING)]


def card(*skills, **more):
    return json.loads(encode_card(skills, "acme", SITE, **more))


def test_what_is_executed_here_is_listed():
    skills = [make_skill("b", action=ACTION), make_skill("notes"), make_skill("a", action=ACTION)]
    assert [skill.name for skill in executed(skills)] == ["a", "b"]


def test_the_required_fields_are_there():
    document = card(make_skill("working-days", kind="action", action=ACTION))
    required = {
        "name",
        "description",
        "supportedInterfaces",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    }
    assert required <= document.keys()
    assert document["skills"] == [
        {"id": "working-days", "name": "working-days", "description": "Does working-days.", "tags": ["action"]}
    ]


def test_no_interface_claims_a_binding_of_a2a():
    document = card(make_skill("a", action=ACTION), interfaces=INTERFACES)
    bindings = {row["url"]: row["protocolBinding"] for row in document["supportedInterfaces"]}
    assert bindings.keys() == {f"{SITE}/.well-known/skill-sharing", f"{SITE}/rpc"}
    assert all(binding.startswith("urn:") for binding in bindings.values())
    assert len(card(make_skill("a", action=ACTION), interfaces=INTERFACES[:1])["supportedInterfaces"]) == 1


def test_tags_are_those_of_the_author():
    [skill] = card(make_skill("a", action=ACTION, metadata={"tags": "dates, work"}))["skills"]
    assert skill["tags"] == ["dates", "work"]
