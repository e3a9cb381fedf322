"""A member that cannot hear a provider is told by others what becomes of it, and takes it as what it is: hearsay."""

import pytest
from tests.support.lan_agents import on_host
from tests.support.namespaces import network

pytestmark = pytest.mark.deep
REGISTRY, PROVIDER, MEMBER = 1, 2, 3


@pytest.mark.spec("SDP-notice-hint")
@pytest.mark.timeout(120)
def test_who_cannot_hear_a_provider_is_told_that_it_left():
    with network(3) as lan:
        lan.deafen(MEMBER, PROVIDER)
        member, provider = on_host(lan, MEMBER).started(), on_host(lan, PROVIDER, ["skill-a"]).started()
        registry = on_host(lan, REGISTRY).started()
        registry.wait_for(lambda found: found == {"skill-a": "HEALTHY"}, "the provider was not found")

        assert member.ask("scene", scene="auth")["group_id"] == "group-auth-001"
        assert member.skills() == {}
        provider.stop()

        told = member.wait_for_notice("MEMBER_LEFT")
        assert (told["notice"]["agent_id"], told["notice"]["skill_id"]) == ("agent-2", "skill-a")
        assert told["skill"] is None, "it was never heard here"
        assert (told["notice"]["scene"], told["notice"]["group_id"]) == ("auth", "group-auth-001")
        registry.wait_for_change("left", "skill-a")
        assert not [change for change in registry.changes if change["kind"] == "notice"], "who hears it itself"
