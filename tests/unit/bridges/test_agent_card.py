"""The agent card: every field that A2A 1.0 requires, and nothing that is not so."""

import json

from tests.support.catalogs import make_skill

from skillwire.bridges.listings import RPC_BINDING, SHARING_BINDING, encode_card
from skillwire.model.skill import Action

SITE = "https://skills.example.com"
ACTION = Action("python", "main.py")
INTERFACES = [("/.well-known/skill-sharing", SHARING_BINDING), ("/rpc", RPC_BINDING)]


def card(*skills, **more):
    return json.loads(encode_card(skills, "acme", SITE, **more))


def test_the_required_fields_are_there_and_no_interface_claims_a_binding_of_a2a():
    skills = [make_skill("days", kind="action", action=ACTION), make_skill("a", metadata={"tags": "dates, work"})]
    document = card(*skills, interfaces=INTERFACES)
    required = "name description supportedInterfaces version capabilities defaultInputModes defaultOutputModes skills"
    assert set(required.split()) <= document.keys()
    assert document["skills"][0] == {"id": "days", "name": "days", "description": "Does days.", "tags": ["action"]}
    assert document["skills"][1]["tags"] == ["dates", "work"]
    bindings = {row["url"]: row["protocolBinding"] for row in document["supportedInterfaces"]}
    assert bindings == {f"{SITE}{path}": binding for path, binding in INTERFACES}
    assert all(binding.startswith("urn:") for binding in bindings.values())
