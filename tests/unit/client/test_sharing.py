"""Skill Sharing through the client: what is found, merged, described and refused, and what is asked for it."""

import json

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire import Client
from skillwire.errors import FetchError, NotFoundError, TrustError, UsageError, ValidationError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import SCHEMA_URI
from skillwire.resolver.references import parse_reference
from skillwire.resolver.settings import Settings
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse

ORIGIN = "https://skills.example.com"
LISTED = f"{ORIGIN}/.well-known/agent-skills/index.json"
OLD = f"{ORIGIN}/.well-known/skills/index.json"
SHARED = f"{ORIGIN}/.well-known/skill-sharing"
SKILL_MD = b"---\nname: forecast\ndescription: Tells the weather.\n---\nLook out of the window.\n"
DIGEST = Digest.of(SKILL_MD)
OTHER = ENTRY | {"id": "example-corp/advice", "name": "Advice", "capability_type": "knowledge", "access": "restricted"}


def described(*entries, **fields):
    document = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": list(entries), **fields}
    return json.dumps(document).encode()


class Place:
    """A publisher with either protocol, and a client that asks it."""

    def __init__(self, folder):
        self.publisher = SimulatedPublisher()
        self.findings = []
        self.client = self.open(folder)

    def open(self, folder, **options):
        client = Client(folder, report=self.findings.append, **options)
        client.driver = self.publisher
        return client

    def list(self, *names, version="2.1.0", at=LISTED, digest=DIGEST, **headers):
        entries = [
            {
                "name": name,
                "type": "skill-md",
                "description": "Tells the weather.",
                "url": f"/{name}.md",
                "digest": digest,
                "version": version,
            }
            for name in names
        ]
        self.publisher.answer(at, json.dumps({"$schema": SCHEMA_URI, "skills": entries}).encode(), **headers)
        for name in names:
            self.publisher.answer(f"{ORIGIN}/{name}.md", SKILL_MD)

    def share(self, *entries, url=SHARED, **headers):
        self.publisher.answer(url, described(*entries), **headers)

    def describe(self, url=ENTRY["descriptor_url"], **fields):
        self.publisher.answer(url, json.dumps({**DESCRIPTOR, **fields}).encode())

    @property
    def asked(self):
        return [request.url for request in self.publisher.requests]

    @property
    def codes(self):
        return [finding.code for finding in self.findings]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    return Place(project)


class TestFind:
    def test_skills_of_an_origin_that_speaks_skill_sharing_alone(self, place):
        place.share(ENTRY, OTHER)
        ((skill, _),) = place.client.find("weather forecast", ["skills.example.com"])[:1]
        assert (skill.name, skill.version, skill.digest) == ("example-corp/forecast", "2.1.0", None)
        assert (skill.ref.found_via, skill.ref.origin, skill.artifact_type) == ("skill-sharing", ORIGIN, "none")
        assert skill.shared is not None
        assert (skill.shared.capability_type, skill.shared.access, skill.shared.provider) == (
            "api",
            "public",
            "Example",
        )

    def test_what_both_list_is_one_skill(self, place):
        place.list("forecast", "other")
        place.share(ENTRY, OTHER)
        hits = {skill.name: skill.ref for skill, _ in place.client.find("", ["skills.example.com"])}
        assert list(hits) == ["forecast", "other", "example-corp/advice"]
        assert hits["forecast"].found_via == "agent-skills 0.2.0, skill-sharing"
        assert hits["forecast"].digest == Digest.of(SKILL_MD)
        assert hits["forecast"].shared is not None
        assert hits["other"].shared is None

    @pytest.mark.parametrize(
        "entries",
        [
            [ENTRY | {"version": "2.2.0"}],
            [ENTRY, ENTRY | {"id": "other-corp/forecast"}],
            [ENTRY | {"id": "a/forecasts"}],
        ],
    )
    def test_what_may_be_another_skill_stays_apart(self, place, entries):
        place.list("forecast")
        place.share(*entries)
        names = [skill.name for skill, _ in place.client.find("", ["skills.example.com"])]
        assert names == ["forecast", *(entry["id"] for entry in entries)]

    def test_an_origin_with_neither_has_no_index(self, place):
        with pytest.raises(NotFoundError) as caught:
            place.client.find("", ["skills.example.com"])
        assert caught.value.code == "INDEX_NOT_FOUND"
        assert place.asked == [LISTED, OLD, SHARED]

    def test_a_broken_second_index_is_told_and_hides_nothing(self, place):
        place.list("forecast")
        place.publisher.answer(SHARED, b"{}")
        assert [skill.name for skill, _ in place.client.find("", ["skills.example.com"])] == ["forecast"]
        assert place.codes == ["VALIDATION_ERROR"]

    def test_a_broken_only_index_is_the_error(self, place):
        place.publisher.answer(SHARED, b"{}")
        with pytest.raises(ValidationError) as caught:
            place.client.find("", ["skills.example.com"])
        assert caught.value.code == "VALIDATION_ERROR"

    def test_a_scope_has_no_index_of_skill_sharing(self, place):
        url = f"{ORIGIN}/@one/.well-known/agent-skills/index.json"
        place.publisher.answer(url, json.dumps({"$schema": SCHEMA_URI, "skills": []}).encode())
        assert place.client.find("", ["skills.example.com/@one"]) == []
        assert place.asked == [url]

    def test_a_type_is_asked_of_the_server(self, place):
        place.list("forecast", "other")
        place.share(ENTRY, url=f"{SHARED}?type=api")
        ((skill, _),) = place.client.find("", ["skills.example.com"], capability_type="api")
        assert (skill.name, skill.digest) == ("forecast", Digest.of(SKILL_MD))
        assert place.asked == [f"{SHARED}?type=api", LISTED]
        assert not place.findings

    def test_a_refused_type_is_told_with_the_servers_reason(self, place):
        body = b'{"error": {"code": "VALIDATION_ERROR", "message": "no such type"}}'
        url = f"{SHARED}?type=apii"
        place.publisher.reply("GET", url, HttpResponse(url, 400, {}, body))
        with pytest.raises(FetchError, match="the origin answered 400: no such type"):
            place.client.find("", ["skills.example.com"], capability_type="apii")

    def test_a_found_skill_shows_what_it_is(self, place):
        place.list("forecast")
        ((skill, _),) = place.client.find("", ["skills.example.com"])
        assert repr(skill) == "<RemoteSkill forecast 2.1.0 at https://skills.example.com>"

    def test_a_server_that_ignores_the_type_is_told(self, place):
        place.share(ENTRY, OTHER, url=f"{SHARED}?type=api")
        found = place.client.find("", ["skills.example.com"], capability_type="api")
        assert [skill.name for skill, _ in found] == ["example-corp/forecast"]
        assert place.codes == ["FILTER_IGNORED"]
        assert "1 of 2" in place.findings[0].message

    def test_the_type_of_a_pasted_address_is_checked_too(self, place):
        place.share(ENTRY, OTHER, url=f"{SHARED}?type=knowledge")
        found = place.client.find("", [f"{SHARED}?type=knowledge"])
        assert [skill.name for skill, _ in found] == ["example-corp/advice"]
        assert place.codes == ["FILTER_IGNORED"]

    def test_a_project_source_is_searched_by_both(self, place, tmp_path):
        place.share(ENTRY)
        client = place.open(tmp_path, settings=Settings(sources=("skills.example.com",)))
        assert [skill.name for skill, _ in client.find("weather")] == ["example-corp/forecast"]

    def test_the_cache_answers_and_is_confirmed(self, place, tmp_path):
        place.share(ENTRY, cache_control="max-age=60")
        place.client.find("", ["skills.example.com"])
        place.client.find("", ["skills.example.com"])
        assert place.asked.count(SHARED) == 1
        again = place.open(tmp_path, refresh=True)
        assert len(again.find("", ["skills.example.com"])) == 1
        assert place.publisher.requests[-1].headers["If-None-Match"]
        offline = place.open(tmp_path, offline=True)
        assert len(offline.find("", ["skills.example.com"])) == 1


class TestReference:
    def test_what_agent_skills_has_costs_nothing_more(self, place):
        place.list("forecast")
        place.share(ENTRY)
        assert place.client.show("skills.example.com/forecast").digest is not None
        assert place.asked == [LISTED]

    @pytest.mark.parametrize("name", ["forecast", "example-corp/forecast"])
    def test_a_name_or_an_id_is_found_where_only_skill_sharing_has_it(self, place, name):
        place.list("other")
        place.share(ENTRY, OTHER)
        assert place.client.show(f"skills.example.com/{name}").name == "example-corp/forecast"

    def test_a_blueprint_id_is_a_reference(self, place):
        place.share(ENTRY | {"id": "com.example.forecast-v1"})
        assert place.client.show("skills.example.com/com.example.forecast-v1").name == "com.example.forecast-v1"

    def test_a_part_of_two_ids_means_neither(self, place):
        place.share(ENTRY, ENTRY | {"id": "other-corp/forecast"})
        with pytest.raises(UsageError) as caught:
            place.client.show("skills.example.com/forecast")
        assert "example-corp/forecast, other-corp/forecast" in caught.value.message

    def test_an_unknown_name_is_told_as_before(self, place):
        place.list("forecast")
        with pytest.raises(NotFoundError) as caught:
            place.client.show("skills.example.com/forecats")
        assert caught.value.fix == "Did you mean forecast?"
        assert place.asked[-1] == SHARED

    def test_a_bare_name_is_looked_up_in_the_sources_by_both(self, place, tmp_path):
        place.share(ENTRY)
        client = place.open(tmp_path, settings=Settings(sources=("skills.example.com",)))
        assert client.show("forecast").name == "example-corp/forecast"

    @pytest.mark.parametrize("text", [SHARED, f"{SHARED}/", "skills.example.com/.well-known/skill-sharing"])
    def test_a_pasted_index_means_all_it_lists(self, place, text):
        place.share(ENTRY, OTHER)
        place.list("other")
        assert [skill.name for skill in place.client.index(text)] == ["example-corp/forecast", "example-corp/advice"]

    def test_a_pasted_descriptor_means_its_skill(self, place):
        place.describe()
        skill = place.client.show(ENTRY["descriptor_url"])
        assert (skill.name, skill.ref.origin, skill.url) == ("example-corp/forecast", ORIGIN, ENTRY["descriptor_url"])

    def test_a_pasted_descriptor_of_any_address_is_tried_last(self, place):
        url = f"{ORIGIN}/v1/forecast"
        place.describe(url)
        assert place.client.show(url).name == "example-corp/forecast"
        assert place.asked[-1] == url

    def test_a_registry_tells_of_other_origins(self, place):
        entry = ENTRY | {"descriptor_url": "https://other.example/forecast.json"}
        place.publisher.answer(f"{ORIGIN}/skills", json.dumps([entry]).encode())
        (skill,) = place.client.index("skills.example.com/skills")
        assert (skill.ref.origin, skill.ref.found_via) == ("https://other.example", "skill-sharing registry")

    def test_a_registry_is_asked_for_a_type(self, place):
        place.publisher.answer(f"{ORIGIN}/skills?type=api", described(ENTRY))
        found = place.client.find("", ["https://skills.example.com/skills?type=api"])
        assert [skill.name for skill, _ in found] == ["example-corp/forecast"]

    def test_agent_skills_addresses_are_not_tried_in_skill_sharing(self):
        assert parse_reference(f"{ORIGIN}/.well-known/agent-skills/forecast").fallback == ()


class TestDescriptor:
    def test_it_is_fetched_when_asked_for_and_kept(self, place):
        place.share(ENTRY)
        place.describe()
        skill = place.client.show("skills.example.com/forecast")
        assert ENTRY["descriptor_url"] not in place.asked
        assert skill.descriptor().endpoint.url == "https://example.com/invoke"
        assert skill.descriptor().id == "example-corp/forecast"
        assert place.publisher.requests[-1].headers["If-None-Match"]
        assert not place.findings

    def test_a_skill_of_agent_skills_has_it_through_the_index(self, place):
        place.list("forecast")
        place.share(ENTRY)
        place.describe()
        assert place.client.show("skills.example.com/forecast").descriptor().id == "example-corp/forecast"

    def test_a_site_below_a_path_has_it_through_its_own_index(self, place):
        site = f"{ORIGIN}/team"
        place.list("forecast", at=LISTED.replace(ORIGIN, site))
        place.share(ENTRY, url=f"{site}/.well-known/skill-sharing")
        place.describe()
        for reference in ("skills.example.com/team/forecast", f"{site}/forecast"):
            skill = place.client.show(reference)
            assert (skill.ref.origin, skill.descriptor().id) == (site, "example-corp/forecast")
        assert SHARED not in place.asked

    def test_one_of_a_namespace_has_that_of_its_bytes_at_the_root_and_no_other(self, place):
        place.list("forecast", at=LISTED.replace(ORIGIN, f"{ORIGIN}/@acme"))
        place.list("forecast")
        place.share(ENTRY)
        place.describe()
        skill = place.client.show("skills.example.com/@acme/forecast")
        assert (skill.ref.origin, skill.descriptor().id) == (f"{ORIGIN}/@acme", "example-corp/forecast")
        place.list("forecast", digest=Digest.of(b"another"))
        with pytest.raises(NotFoundError, match=f"{ORIGIN} describes another skill or version by the name forecast"):
            place.client.show("skills.example.com/@acme/forecast").descriptor()

    @pytest.mark.parametrize("scope", ["", "@acme/"])
    def test_a_version_that_does_not_run_is_named_with_the_one_that_does(self, place, scope):
        older = Digest.of(b"older")
        rows = [
            {"version": version, "digest": digest, "url": "/forecast.md", "type": "skill-md", "description": "Tells."}
            for version, digest in (("2.1.0", DIGEST), ("2.0.0", older))
        ]
        versions = json.dumps({"name": "forecast", "publisher": "acme", "versions": rows}).encode()
        for url in (f"{ORIGIN}/@acme/forecast/versions.json", f"{ORIGIN}/@forecast/versions.json"):
            place.publisher.answer(url, versions)
        place.list("forecast", at=LISTED.replace(ORIGIN, f"{ORIGIN}/@acme"))
        place.list("forecast")
        place.share(ENTRY)
        with pytest.raises(NotFoundError, match=r"does not run version 2\.0\.0 of forecast") as caught:
            place.client.call(f"skills.example.com/{scope}forecast@2.0.0")
        assert (caught.value.code, caught.value.fix) == ("VERSION_NOT_FOUND", "Name one that runs: 2.1.0.")

    def test_one_of_a_namespace_has_the_facts_of_its_bytes(self, place):
        place.list("forecast", at=LISTED.replace(ORIGIN, f"{ORIGIN}/@acme"))
        place.share({**ENTRY, "digest": DIGEST})
        shown = place.client.show("skills.example.com/@acme/forecast", both=True)
        assert shown.shared is not None
        assert shown.shared.id == "example-corp/forecast"
        place.share({**ENTRY, "digest": Digest.of(b"another")})
        assert (
            place.open(place.client.root, refresh=True).show("skills.example.com/@acme/forecast", both=True).shared
            is None
        )

    def test_one_that_was_published_a_moment_ago_has_it_whatever_the_cache_holds(self, place):
        place.list("forecast")
        place.share(OTHER, cache_control="max-age=60")
        place.client.find("", ["skills.example.com"])
        place.share(OTHER, ENTRY, cache_control="max-age=60")
        place.describe()
        assert place.client.show("skills.example.com/forecast").descriptor().id == "example-corp/forecast"
        assert place.asked.count(SHARED) == 2

    def test_a_kept_index_that_lacks_a_new_skill_is_read_anew(self, place):
        place.share(cache_control="max-age=60")
        place.list("other", cache_control="max-age=60")
        place.client.find("", ["skills.example.com"])
        place.share(ENTRY, cache_control="max-age=60")
        place.list("forecast", "other", cache_control="max-age=60")
        skill = place.client.show("skills.example.com/forecast", both=True)
        assert skill.shared is not None
        place.publisher.requests.clear()
        assert place.client.show("skills.example.com/other", both=True).shared is None
        assert place.asked == []

    def test_a_kept_index_with_the_version_before_is_read_anew(self, place):
        place.list("forecast", version="2.0.0", cache_control="max-age=60")
        place.share(ENTRY | {"version": "2.0.0"})
        assert place.client.show("skills.example.com/forecast", both=True).version == "2.0.0"
        place.list("forecast", cache_control="max-age=60")
        place.share(ENTRY)
        skill = place.client.show("skills.example.com/forecast", both=True)
        assert (skill.version, skill.shared is not None) == ("2.1.0", True)

    def test_one_that_is_not_shared_has_none(self, place):
        place.list("other")
        place.share(ENTRY)
        with pytest.raises(NotFoundError):
            place.client.show("skills.example.com/other").descriptor()

    def test_one_of_a_site_without_skill_sharing_is_not_callable(self, place):
        place.list("other")
        with pytest.raises(UsageError, match="publishes other as files alone: the site is static") as caught:
            place.client.call("skills.example.com/other")
        assert (caught.value.code, "skillwire serve FOLDER" in str(caught.value.fix)) == ("NOT_CALLABLE", True)

    def test_what_the_index_says_otherwise_is_told(self, place):
        place.share(ENTRY)
        place.describe(version="2.2.0", access="restricted")
        assert place.client.show("skills.example.com/forecast").descriptor().version == "2.2.0"
        assert place.codes == ["INDEX_DIFFERS", "INDEX_DIFFERS"]

    def test_a_kept_copy_that_differs_is_read_anew_and_is_no_fault_of_the_provider(self, place):
        place.share(ENTRY)
        place.publisher.answer(ENTRY["descriptor_url"], json.dumps(DESCRIPTOR).encode(), cache_control="max-age=60")
        place.client.show("skills.example.com/forecast").descriptor()
        place.share(ENTRY | {"version": "2.2.0"})
        place.describe(version="2.2.0")
        assert place.client.show("skills.example.com/forecast").descriptor().version == "2.2.0"
        assert not place.codes

    def test_a_kept_copy_that_differs_is_used_with_a_warning_where_it_cannot_be_read_anew(self, place):
        place.share(ENTRY)
        place.publisher.answer(ENTRY["descriptor_url"], json.dumps(DESCRIPTOR).encode(), cache_control="max-age=60")
        place.client.show("skills.example.com/forecast").descriptor()
        place.share(ENTRY | {"version": "2.2.0"})
        place.publisher.fail(ENTRY["descriptor_url"], FetchError("CONNECT_FAILED", "nobody listens there"))
        assert place.client.show("skills.example.com/forecast").descriptor().version == "2.1.0"
        assert place.codes == ["INDEX_DIFFERS"]

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"id": "example-corp/other"}, "ID_DIFFERS"),
            ({"inputs": 3}, "VALIDATION_ERROR"),
            ({"endpoint": {"url": "http://169.254.169.254/", "method": "GET"}}, "DESCRIPTOR"),
            ({"protocol": {"version": "2.0.0"}}, "VERSION_INCOMPATIBLE"),
        ],
    )
    def test_nothing_of_one_that_is_wrong_is_used(self, place, fields, code):
        place.share(ENTRY)
        place.describe(**fields)
        with pytest.raises(ValidationError) as caught:
            place.client.show("skills.example.com/forecast").descriptor()
        assert caught.value.code == code

    def test_a_missing_one_is_told(self, place):
        place.share(ENTRY)
        with pytest.raises(NotFoundError) as caught:
            place.client.show("skills.example.com/forecast").descriptor()
        assert caught.value.code == "SKILL_NOT_FOUND"


class TestAdd:
    @pytest.mark.parametrize(("fields", "token"), [({"access": "public"}, None), ({}, "hush")])
    def test_what_is_open_or_asked_for_with_a_credential_needs_no_login(self, place, fields, token):
        place.share(*({**entry, **fields} for entry in (ENTRY, OTHER)))
        if token is not None:
            place.client.set_token("https://skills.example.com", token)
        for name, advice in (("forecast", "called, not installed"), ("advice", "Agent Skills Discovery")):
            with pytest.raises(TrustError) as caught:
                place.client.add(f"skills.example.com/{name}", consent=True)
            assert caught.value.code == "NO_DIGEST"
            assert caught.value.fix is not None
            assert advice in caught.value.fix
            assert "login" not in caught.value.fix

    def test_what_only_skill_sharing_lists_is_refused_with_the_reason(self, place, tmp_path):
        place.share(ENTRY, OTHER)
        for name, code, fix in (
            ("forecast", "NO_DIGEST", "It is called, not installed: "),
            ("advice", "AUTH_REQUIRED", "Run skillwire auth login https://skills.example.com."),
        ):
            with pytest.raises(TrustError) as caught:
                place.client.add(f"skills.example.com/{name}", consent=True)
            assert caught.value.code == code
            assert str(caught.value.fix).startswith(fix)
        with pytest.raises(TrustError):
            place.client.show("skills.example.com/advice").body()
        assert not list(tmp_path.glob("project/.agents/**/SKILL.md"))

    @pytest.mark.parametrize("reference", [SHARED, ENTRY["descriptor_url"]])
    def test_what_agent_skills_gives_a_digest_of_is_installed_from_there(self, place, tmp_path, reference):
        place.list("forecast")
        place.share(ENTRY)
        place.describe()
        report = place.client.add(reference, consent=True)
        assert [(locked.name, locked.index, locked.digest) for locked in report.installed] == [
            ("forecast", LISTED, Digest.of(SKILL_MD))
        ]
        assert (tmp_path / "project/.agents/skills/forecast/SKILL.md").read_bytes() == SKILL_MD

    def test_installing_by_name_asks_agent_skills_alone(self, place):
        place.list("forecast")
        place.share(ENTRY)
        place.client.add("skills.example.com/forecast", consent=True)
        assert place.asked == [LISTED, f"{ORIGIN}/forecast.md"]


class TestCredential:
    def test_it_goes_to_its_origin_and_to_no_other(self, place, tmp_path):
        client = place.open(tmp_path, tokens={ORIGIN: "hush"})
        place.share(ENTRY | {"descriptor_url": "https://other.example/forecast.json"})
        place.describe("https://other.example/forecast.json")
        client.show("skills.example.com/forecast").descriptor()
        sent = {request.url: request.headers.get("Authorization") for request in place.publisher.requests}
        assert sent[SHARED] == "Bearer hush"
        assert sent["https://other.example/forecast.json"] is None

    def test_what_the_provider_says_of_a_missing_one_is_told(self, place):
        body = {"error": {"code": "AUTH_REQUIRED", "message": "Who?", "details": {"required_auth_type": "api_key"}}}
        place.publisher.answer(SHARED, json.dumps(body).encode(), status=401)
        with pytest.raises(FetchError) as caught:
            place.client.find("", ["skills.example.com"])
        assert (caught.value.code, caught.value.message) == ("AUTH_REQUIRED", "Who?")
        assert caught.value.details["details"] == {"required_auth_type": "api_key"}


class TestWhich:
    def test_explaining_asks_both_and_traces_each(self, place):
        place.list("forecast")
        place.share(ENTRY)
        answer = place.client.which("skills.example.com/forecast", explain=True)
        assert [(step.attempt.url, step.attempt.generation) for step in answer.steps] == [
            (LISTED, "0.2.0"),
            (SHARED, "skill-sharing"),
        ]
        assert answer.found[0].shared is not None

    def test_without_it_one_lookup_suffices(self, place):
        place.list("forecast")
        place.share(ENTRY)
        assert [step.attempt.url for step in place.client.which("skills.example.com/forecast").steps] == [LISTED]

    def test_a_source_of_skill_sharing_wins_where_no_other_has_it(self, place, tmp_path):
        place.share(ENTRY)
        client = place.open(tmp_path, settings=Settings(sources=(SHARED, "other.example")))
        answer = client.which("forecast")
        assert answer.error is None
        assert answer.found[0].name == "example-corp/forecast"
