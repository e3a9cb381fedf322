"""Records of the DHT as skills of a network, and what is said of a question that was not answered whole."""

import pytest
from tests.support.fake_dht import DIGEST, dht_skill

from skillwire.errors import FetchError, NotFoundError, TrustError, UsageError
from skillwire.model.lan import DhtAnswer, DhtPut, FoundVia
from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
from skillwire.resolver.sources import dht
from skillwire.resolver.sources.lan import http_url, ref_of

SETTINGS = DhtSettings(bootstrap=(("192.0.2.1", 6881), ("2001:db8::1", 6882)))
NOW = 1_707_868_800.0


def skills(*found, now=NOW):
    return dht.skills_of([DhtAnswer(found, 3)], now)


def test_a_record_is_a_skill_of_its_servers_url_with_trust_age_and_digest():
    (skill,) = skills(dht_skill(endpoint="https://skills.example.com/team/", digest=DIGEST, announced=NOW - 3))
    ref = ref_of(skill)
    assert (ref.found_via, ref.freshness, ref.fetched_at, ref.digest) == ("dht", "live", NOW - 3, DIGEST)
    assert (ref.origin, http_url(skill)) == ("https://skills.example.com/team", "https://skills.example.com/team")
    assert (skill.endpoint, skill.trust, skill.status) == ("skills.example.com:443", "verified", "UNKNOWN")
    assert skill.found_via is FoundVia.DHT
    (other,) = skills(dht_skill(trust="unverified"))
    assert (other.trust, ref_of(other).digest) == ("unverified", None)


@pytest.mark.parametrize(("age", "freshness"), [(0, "live"), (240, "live"), (241, "stale")])
def test_one_whose_publisher_missed_to_put_it_again_is_stale(age, freshness):
    (skill,) = skills(dht_skill(announced=NOW - age))
    assert skill.freshness == freshness


@pytest.mark.parametrize(
    "endpoint", ["", "ftp://192.0.2.1/", "http://user@192.0.2.1/", "192.0.2.1:8000", "http://[::1"]
)
def test_an_endpoint_that_no_client_can_open_is_dropped(endpoint):
    assert skills(dht_skill(endpoint=endpoint), dht_skill("other"))[0].skill_id == "other"


def test_a_skill_that_two_keys_answer_is_listed_once_and_that_of_another_signer_beside_it():
    one = dht_skill()
    found = dht.skills_of([DhtAnswer((one,), 3), DhtAnswer((one, one._replace(key_id="f" * 64)), 3)], NOW)
    assert len(found) == 2


def test_what_was_not_reached_is_named_and_bounded():
    nodes = tuple(f"192.0.2.{number}:6881" for number in range(1, 11))
    text = dht.unreached([DhtAnswer((), 3, nodes, ("user-auth",)), DhtAnswer((), 3, nodes[:2])])
    assert text.startswith("; no node answered for user-auth; no answer came from 192.0.2.1:6881, ")
    assert text.endswith("192.0.2.8:6881 and 2 more")
    assert dht.unreached([DhtAnswer((), 3)]) == dht.unreached([DhtPut(3)]) == ""


def test_a_silent_dht_is_an_error_that_names_the_bootstrap_nodes():
    with pytest.raises(FetchError) as caught:
        dht.check_answers([DhtAnswer((), 0, seconds=5.0)], SETTINGS)
    assert caught.value.code == "DHT_UNREACHABLE"
    assert str(caught.value.place) == "192.0.2.1:6881, [2001:db8::1]:6882"
    assert caught.value.message == "no node of the DHT answered within 5 s"
    dht.check_answers([DhtAnswer((), 0), DhtAnswer((), 1)], SETTINGS)


def test_bootstrap_nodes_whose_names_lead_nowhere_are_told_from_silent_ones():
    assert "has a name with an address" in dht.silent(SETTINGS, 0.0).message


def test_nothing_found_says_how_many_nodes_answered_and_which_did_not():
    error = dht.not_offered("offers user-auth", [DhtAnswer((), 4, ("192.0.2.1:6881",))])
    assert (type(error), error.code) == (NotFoundError, "DISC_002")
    assert error.message == (
        "no skill in the DHT offers user-auth: 4 nodes answered; no answer came from 192.0.2.1:6881"
    )


@pytest.mark.parametrize(
    ("done", "code"), [(DhtPut(1), ""), (DhtPut(0, ("192.0.2.1:6881",)), "DHT_UNREACHABLE"), (DhtPut(0), "DISC_003")]
)
def test_a_put_that_no_node_has_stored_is_an_error(done, code):
    if not code:
        dht.check_put(done, SETTINGS, "notes")
        return
    with pytest.raises((FetchError, TrustError)) as caught:
        dht.check_put(done, SETTINGS, "notes")
    assert caught.value.code == code


class TestBootstrapNodes:
    def test_named_ones_replace_those_of_the_settings_and_turn_the_dht_on(self):
        settings = LanSettings(dht=SETTINGS)
        assert dht.with_bootstrap(settings, []).dht.bootstrap == SETTINGS.bootstrap
        named = dht.with_bootstrap(settings, ["node.example:7000", "[::1]:7001"]).dht
        assert (named.enabled, named.bootstrap) == (True, (("node.example", 7000), ("::1", 7001)))

    def test_without_one_the_error_says_how_to_name_one(self):
        with pytest.raises(UsageError) as caught:
            dht.with_bootstrap(LanSettings(), [])
        assert caught.value.code == "DHT_BOOTSTRAP"
        assert "--bootstrap" in caught.value.diagnostics().fix
        assert dht.with_bootstrap(LanSettings(), [], is_required=False).dht.enabled

    @pytest.mark.parametrize("text", ["node.example", ":6881", "node.example:0", "http://node.example:1", "a b:1"])
    def test_another_form_is_refused(self, text):
        with pytest.raises(UsageError, match="a node of the DHT"):
            dht.with_bootstrap(LanSettings(), [text])
