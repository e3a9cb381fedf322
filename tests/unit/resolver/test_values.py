"""Freshness, ranking, placement, policy, settings and the lock: the pure parts of the resolver."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import SkillwireError, UsageError
from skillwire.model.ref import CachedResponse, InstallLocation, Lock, LockedSkill, OriginRecord
from skillwire.resolver.agents import AGENTS, UNIVERSAL, choose_agents, plan_placement
from skillwire.resolver.context import ResolveContext, is_fresh, lifetime, read_document
from skillwire.resolver.lockfile import decode_lock, encode_lock
from skillwire.resolver.plan import InstallPolicy
from skillwire.resolver.rank import rank
from skillwire.resolver.settings import SETTINGS, Settings, SettingsLayer, environment_layer, merge_settings
from skillwire.wire.exchange import HttpRequest, HttpResponse, follow

BASE = "https://example.com"


class TestFreshness:
    @pytest.mark.parametrize(
        ("control", "seconds"),
        [
            ("max-age=60", 60),
            ("public, max-age=60, stale-while-revalidate=600", 60),
            ("public,MAX-AGE=60", 60),
            ("max-age=99999999", 3600),
            ("", 0),
            ("no-cache, max-age=60", 0),
            ("no-store", 0),
            ("s-maxage=60", 0),
            ("max-age=-1", 0),
        ],
    )
    def test_lifetime(self, control, seconds):
        assert lifetime({"cache-control": control}) == seconds

    @pytest.mark.parametrize(
        ("age", "seconds"), [("", 60), ("0", 60), ("59", 1), ("61", 0), ("9" * 400, 0), ("-5", 60), ("x", 60)]
    )
    def test_the_time_in_other_caches_is_subtracted(self, age, seconds):
        assert lifetime({"cache-control": "max-age=60", "age": age}) == seconds

    def test_an_answer_is_fresh_until_its_age_and_never_before_it_came(self):
        response = CachedResponse("u", b"", {"cache-control": "max-age=60"}, fetched_at=1000)
        assert is_fresh(response, 1059)
        assert not is_fresh(response, 1060)
        assert not is_fresh(response, 999), "a clock that went back proves nothing"

    def test_what_must_not_be_stored_is_not_and_replaces_what_was(self):
        kept, dropped = [], []
        cache = SimpleNamespace(
            look_up=lambda *_: None,
            keep=lambda document, _: kept.append(document.headers),
            drop=lambda url, _: dropped.append(url),
        )
        context = ResolveContext(cache, None, None, {}, lambda: 1.0, lambda _: None)  # type: ignore[arg-type]  # fakes
        for control in ("private, No-Store", "private"):

            def ask(**_):
                return (yield HttpRequest(f"{BASE}/x"))

            answer = HttpResponse(f"{BASE}/x", 200, {"cache-control": control}, b"")
            follow(read_document(f"{BASE}/x", context, ask), [answer])
        assert kept == [{"cache-control": "private"}]
        assert dropped == [f"{BASE}/x"]


class TestRank:
    SKILLS = (
        ("code-review", "Review code for bugs and security issues."),
        ("pdf-forms", "Fill PDF forms and extract tables from PDF files."),
        ("release-notes", "Write release notes from the history of a repository."),
        ("review", "Collects opinions."),
    )

    def names(self, query):
        return [item[0] for item, _ in rank(query, self.SKILLS, lambda item: item)]

    def test_exact_names_come_first(self):
        assert self.names("review")[0] == "review"
        assert self.names("Code Review")[0] == "code-review"

    def test_other_forms_of_a_word_match(self):
        assert "code-review" in self.names("codes")
        assert self.names("fill a form")[0] == "pdf-forms"

    def test_the_beginning_of_a_word_matches_and_counts_less_than_the_word(self):
        assert self.names("repo") == ["release-notes"]
        leads = ("salesforce.leads.sync", "Syncs leads.")
        assert [item for item, _ in rank("sales", (("sap.x", "Rates."), leads), lambda item: item)] == [leads]
        skills = (("one", "Works with a testbed."), ("two", "Works with a test."))
        assert [item[0] for item, _ in rank("test", skills, lambda item: item)] == ["two", "one"]

    def test_words_that_say_nothing_find_nothing_beside_others(self):
        assert self.names("for the history of it") == ["release-notes"]
        assert self.names("how to extract from a table") == ["pdf-forms"]

    def test_a_word_that_says_nothing_in_a_description_is_found_where_it_is_asked_for_alone_or_all_are_needed(self):
        skills = (("staff", "user-auth, sign-in"), ("guests", "auth, data-read, sign-off"))
        for query, needs_all, found in (
            ("user", False, ["staff"]), ("users", False, ["staff"]), ("user", True, ["staff"]),
            ("user auth", True, ["staff"]), ("sign-in", True, ["staff"]), ("the auth", True, []),
        ):  # fmt: skip
            hits = rank(query, skills, lambda item: item, needs_all=needs_all)
            assert [name for (name, _), _ in hits] == found, query

    def test_a_name_counts_beside_a_description(self):
        skills = (("one", "Fills forms quickly."), ("forms", "Fills what is empty."), ("three", "Nothing."))
        assert next(item[0] for item, _ in rank("fill forms", skills, lambda item: item)) == "forms"

    @pytest.mark.parametrize("query", ["secruity", "secuity", "securitty", "sekurity"])
    def test_one_wrong_letter_is_forgiven(self, query):
        assert self.names(query) == ["code-review"]

    def test_a_typo_is_looked_for_only_where_no_word_matches(self):
        skills = (("one", "Keeps a record."), ("two", "Keeps a rekord."))
        assert [item[0] for item, _ in rank("rekord", skills, lambda item: item)] == ["two"]

    def test_nothing_matches_nothing(self):
        assert self.names("kubernetes") == []

    def test_an_empty_query_lists_all(self):
        assert len(self.names("")) == len(self.SKILLS)

    def test_nothing_to_search(self):
        assert rank("x", [], lambda item: item) == []


class TestPlace:
    def test_at_least_twenty_agents(self):
        assert len(AGENTS) >= 20

    def test_folders_of_agents_are_relative_and_stay_inside(self):
        for agent in AGENTS.values():
            for folder in (agent.project, agent.home, agent.found_by):
                assert not folder.startswith("/")
                assert ".." not in folder.split("/")

    def test_without_a_choice_the_universal_folder_and_the_agents_in_use(self):
        assert choose_agents((), ["claude-code"], for_user=False) == ("universal", "claude-code")

    def test_a_choice_is_taken_as_it_is(self):
        assert choose_agents(["codex"], ["claude-code"], for_user=False) == ("codex",)
        assert choose_agents("codex", ["claude-code"], for_user=False) == ("codex",)
        assert choose_agents(["*"], [], for_user=True) == tuple(AGENTS)

    def test_all_of_them_leave_a_plain_folder_of_the_project_alone(self):
        others = tuple(name for name in AGENTS if name != "openclaw")
        assert choose_agents(["*"], [], for_user=False) == others
        assert all(AGENTS[name].project.startswith(".") for name in others)
        assert choose_agents(["*"], ["openclaw"], for_user=False) == tuple(AGENTS)
        assert choose_agents(["openclaw"], [], for_user=False) == ("openclaw",)

    def test_an_unknown_agent_is_answered_with_those_that_look_alike(self):
        with pytest.raises(UsageError, match="there is no agent 'claud-code'") as caught:
            choose_agents(["claud-code"], [], for_user=False)
        assert "claude-code" in caught.value.diagnostics().fix

    def test_one_folder_needs_no_link(self):
        assert plan_placement(["claude-code"], for_user=False, copy=False) == InstallLocation((".claude/skills",))
        assert plan_placement(["codex", "cursor"], for_user=False, copy=False) == InstallLocation((UNIVERSAL,))

    def test_several_folders_are_one_folder_and_links(self):
        placement = plan_placement(["claude-code", "codex", "kiro"], for_user=False, copy=False)
        assert placement == InstallLocation((UNIVERSAL,), (".claude/skills", ".kiro/skills"))

    def test_copies_need_no_universal_folder(self):
        placement = plan_placement(["claude-code", "kiro"], for_user=False, copy=True)
        assert placement == InstallLocation((".claude/skills", ".kiro/skills"))

    def test_the_users_folders_differ(self):
        assert plan_placement(["windsurf"], for_user=True, copy=False).folders == (".codeium/windsurf/skills",)


class TestPolicy:
    def test_an_unknown_origin_asks(self):
        assert InstallPolicy().decide(BASE, None) == "ask"
        assert InstallPolicy().decide(BASE, OriginRecord("2026-01-01T00:00:00Z")) == "ask"

    def test_an_accepted_origin_is_allowed(self):
        assert InstallPolicy().decide(BASE, OriginRecord("2026-01-01T00:00:00Z", accepted=True)) == "allow"

    @pytest.mark.parametrize("entry", ["example.com", "https://example.com"])
    def test_a_trusted_origin_is_allowed_with_its_scopes(self, entry):
        policy = InstallPolicy(frozenset({entry}), only_trusted=True)
        assert policy.decide(f"{BASE}/@team", None) == "allow"

    def test_only_trusted_refuses_even_what_was_accepted(self):
        policy = InstallPolicy(frozenset({"example.net"}), only_trusted=True)
        assert policy.decide(BASE, OriginRecord("2026-01-01T00:00:00Z", accepted=True)) == "refuse"

    @pytest.mark.parametrize("other", ["https://example.com.evil.example", "https://evil.example/example.com"])
    def test_a_name_that_only_looks_alike_is_not_trusted(self, other):
        assert InstallPolicy(frozenset({"example.com"})).decide(other, None) == "ask"


class TestSettings:
    def test_every_row_is_a_field_with_its_default(self):
        assert {key: row.default for key, row in SETTINGS.items()} == {
            key: getattr(Settings(), key) for key in Settings._fields if key != "own_sources"
        }

    @pytest.mark.parametrize("key", ["trusted_origins", "only_trusted", "allow"])
    def test_a_project_cannot_decide_whom_the_user_trusts(self, key):
        value = SETTINGS[key].default or []
        with pytest.raises(UsageError, match="a project's file cannot set"):
            merge_settings(SettingsLayer("skillwire.toml", {key: value}, is_project=True))

    def test_a_project_does_not_name_the_local_network_as_a_source(self):
        layer = {"sources": ["example.com", "lan:"]}
        with pytest.raises(UsageError, match="cannot name lan: as a source"):
            merge_settings(SettingsLayer("skillwire.toml", layer, is_project=True))
        assert merge_settings(SettingsLayer("user", layer)).own_sources == {"example.com", "lan:"}

    def test_only_sources_of_the_user_are_named(self):
        settings = merge_settings(
            SettingsLayer("skillwire.toml", {"sources": ["http://127.0.0.1:9200"]}, is_project=True),
            SettingsLayer("user", {"sources": ["a.example"]}),
        )
        assert settings.sources == ("http://127.0.0.1:9200",)
        assert settings.own_sources == {"a.example"}

    def test_earlier_layers_win(self):
        settings = merge_settings(
            environment_layer({"SKILLWIRE_SOURCES": "a.example b.example", "HOME": "/x"}),
            SettingsLayer("skillwire.toml", {"sources": ["c.example"], "install": "copy"}),
        )
        assert settings.sources == ("a.example", "b.example")
        assert settings.install == "copy"

    @pytest.mark.parametrize(
        ("key", "value"),
        [("surces", []), ("sources", 5), ("sources", [1]), ("offline", "perhaps"), ("install", "move")],
    )
    def test_what_cannot_be_used_is_an_error_with_its_place(self, key, value):
        with pytest.raises(UsageError) as caught:
            merge_settings(SettingsLayer("skillwire.toml", {key: value}))
        assert caught.value.code == "SETTING_FORM"
        assert str(caught.value.place) == "skillwire.toml"

    def test_the_environment_is_named_by_its_variable(self):
        with pytest.raises(UsageError, match="SKILLWIRE_OFFLINE must be true or false"):
            merge_settings(environment_layer({"SKILLWIRE_OFFLINE": "maybe"}))


digests = st.text("0123456789abcdef", min_size=64, max_size=64)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)
placements = st.builds(InstallLocation, st.just((UNIVERSAL,)), st.just((".claude/skills",)) | st.just(()))
file_digests = st.dictionaries(st.from_regex(r"[a-z]{1,8}/[a-z]{1,8}\.md", fullmatch=True), digests, max_size=3)
common = {
    "name": st.from_regex(r"sk-[a-z0-9]{1,10}", fullmatch=True),
    "version": st.none() | texts,
    "first_seen": texts,
    "agents": st.lists(texts).map(tuple),
    "placement": placements,
    "files": file_digests,
    "wanted": st.sampled_from(["", "^1.2", "1.0.0"]),
    "capabilities": st.just(()),
    "requires": st.just({}),
    "git": st.none(),
}
locked_skills = st.builds(
    LockedSkill,
    origin=st.just(BASE),
    index=st.just(f"{BASE}/.well-known/agent-skills/index.json"),
    url=st.sampled_from([f"{BASE}/a.md", "https://cdn.example.net/a.tar.gz"]),
    digest=st.none() | digests.map("sha256:".__add__),
    artifact_type=st.sampled_from(["skill-md", "archive", "files"]),
    **common,
) | st.builds(
    LockedSkill,
    origin=st.just("path:skills"),
    index=st.just(""),
    url=st.just("skills/a"),
    digest=st.none(),
    artifact_type=st.just("folder"),
    **common,
)
REMOTE = LockedSkill(
    "a", BASE, f"{BASE}/i.json", f"{BASE}/a.md", None, "files", None, "", (), InstallLocation((UNIVERSAL,)), {}
)


class TestLock:
    @given(st.lists(locked_skills, max_size=3))
    def test_reading_what_was_written_gives_the_same(self, skills):
        lock = Lock().with_skills(skills)
        assert decode_lock(encode_lock(lock), "skills.lock") == lock

    def test_equal_locks_are_equal_bytes(self):
        one, two = (REMOTE._replace(name=name) for name in "ab")
        assert encode_lock(Lock().with_skills([one, two])) == encode_lock(Lock().with_skills([two, one]))

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"{}",
            b'{"version": 2, "skills": {}}',
            b'{"version": 1, "skills": []}',
            b'{"version": 1, "skills": {"../x": {}}}',
            b'{"version": 1, "skills": {"a": {}}}',
        ],
    )
    def test_what_is_no_lock_is_refused(self, data):
        with pytest.raises(SkillwireError):
            decode_lock(data, "skills.lock")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("folders", ["../../etc"]),
            ("folders", ["/etc"]),
            ("links", ["a/../../b"]),
            ("files", {"../x": "0" * 64}),
            ("files", {"x": "zz"}),
            ("digest", "sha256:short"),
            ("folders", []),
            ("origin", "path:x"),
            ("origin", "https://good.example"),
            ("origin", "https://example.com#\u009b2J"),
            ("origin", "x\u001b]0;pwned\u0007"),
            ("index", "https://evil.example/i.json"),
            ("index", ""),
            ("url", "https://example.com/a b"),
            ("url", "../a"),
            ("type", "folder"),
            ("type", "wasm"),
        ],
    )
    def test_a_hostile_lock_cannot_lead_out(self, field, value):
        document = json.loads(encode_lock(Lock().with_skills([REMOTE])))
        document["skills"]["a"][field] = value
        with pytest.raises(SkillwireError) as caught:
            decode_lock(json.dumps(document).encode(), "skills.lock")
        assert caught.value.code == "LOCK_FORM"
