"""The search index: what is found, in which order, narrowed and counted, as the skills change."""

import gc
from dataclasses import replace

import pytest
from tests.support.catalogs import make_skill

from skillwire import limits
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import UsageError
from skillwire.model.catalog import FacetValue, SearchQuery
from skillwire.registry.search import read_words, telling_words


class Shelf:
    """Skills and their index, as a publication changes them."""

    def __init__(self, folder):
        self.index = SearchIndex(folder)
        self.skills = {}
        self.now = self.index.update({}, (), ())

    def put(self, *skills, removed=()):
        self.skills |= {skill.name: skill for skill in skills}
        for name in removed:
            del self.skills[name]
        self.skills = dict(sorted(self.skills.items()))
        self.now = self.index.update(self.skills, [skill.name for skill in skills], removed)
        return self.now

    def find(self, text="", **more):
        return self.now.search(SearchQuery(text, **more)).names


def skill(name, description="", *paths, **more):
    return make_skill(name, *paths, **more)._replace(description=description)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


def test_nothing_of_the_index_is_left_in_its_folder(shelf, tmp_path):
    shelf.put(skill("one"))
    assert list(tmp_path.iterdir()) == []
    shelf.put(skill("two"))
    assert shelf.find("two") == ("two",)


def test_what_has_all_the_words_is_found_in_any_of_its_fields(shelf):
    shelf.put(
        skill("deploy-cluster", "Rolls out to kubernetes."),
        skill("notes", "Writes notes.", metadata={"tags": "Deploying, kubernetes"}),
        skill("charts", "Draws.", "references/deployed-kubernetes.md"),
        skill("deploy-site", "Puts a site online."),
    )
    assert set(shelf.find("deploy kubernetes")) == {"deploy-cluster", "notes", "charts"}


def test_without_any_that_has_all_the_words_those_with_some_are_found(shelf):
    shelf.put(skill("maps", "Draws a map."), skill("mail", "Sends mail."))
    assert set(shelf.find("draw and send")) == {"maps", "mail"}
    assert shelf.find("draw unheard-of") == ("maps",)


def test_the_skill_of_that_name_comes_first(shelf):
    shelf.put(skill("git-commit", "One."), skill("git-commit-log", "git commit git commit git commit"), skill("log"))
    assert tuple(shelf.now.rank("Git commit")) == shelf.find("Git commit")
    assert shelf.now.rank("!") == []
    assert shelf.find("Git commit")[0] == shelf.find("git-commit")[0] == "git-commit"


def test_of_very_many_hits_those_with_the_word_in_name_or_tags_come_first(shelf, monkeypatch):
    shelf.put(
        *(skill(f"s{number}", "alpha " * (number + 1)) for number in range(3)),
        skill("tagged", "alpha", metadata={"tags": "alpha"}),
    )
    assert shelf.find("alpha")[-1] == "s0"
    monkeypatch.setattr("skillwire.adapters.sqlite.search._MANY", 3)
    assert shelf.find("alpha") == ("tagged", "s0", "s1", "s2")
    assert shelf.now.search(SearchQuery("alpha")).total == 4


@pytest.mark.parametrize(
    "typed", ["kub", "kubern", "kubernetesfoo", "kubernets", "kuberneets", "kubernetess", "jubernetes"]
)
def test_what_is_being_typed_or_misspelt_finds_what_was_meant(shelf, typed):
    shelf.put(skill("one", "Talks to kubernetes."), skill("two", "Something else."))
    assert shelf.find(typed) == ("one",)


def test_a_finished_word_is_no_beginning(shelf):
    shelf.put(skill("one", "Reads a category."))
    assert shelf.find("cat") == ("one",)
    assert shelf.find("cat ") == ()


def test_no_text_lists_all_by_name_and_a_text_without_words_none(shelf):
    shelf.put(skill("b"), skill("c"), skill("a"))
    assert shelf.find() == shelf.find("  ") == ("a", "b", "c")
    assert shelf.find("!?") == ()


def test_a_revision_finds_its_own_skills_until_it_is_let_go(shelf):
    old = shelf.put(skill("one", "alpha"), skill("two", "alpha"), skill("three", "alpha"))
    shelf.put(skill("one", "beta"), removed=["two"])
    new = shelf.put(skill("four", "alpha"))
    find = SearchQuery("alpha")
    assert set(old.search(find).names) == {"one", "two", "three"}
    assert set(new.search(find).names) == {"three", "four"}
    assert new.search(SearchQuery("beta")).names == ("one",)
    assert old.search(SearchQuery("beta")).names == ()
    assert old.search(SearchQuery("")).names == ("one", "three", "two")


def test_rows_that_no_revision_needs_are_taken_by_the_next_skills(shelf):
    for number in range(20):
        search = shelf.put(skill("one", f"word{number}"))
        del search
        gc.collect()
    assert len(shelf.now.names) <= 3
    assert shelf.find("word19 ") == ("one",)


def test_facets_count_all_hits_and_narrow_them(shelf):
    shelf.put(
        skill("a", "find me", license="MIT", metadata={"tags": "Data, web"}),
        skill("b", "find me", "scripts/run.py", license="MIT", capabilities=("web",)),
        skill("c", "find me", "scripts/main.py", kind="action", license="Apache-2.0", scenes=("Data",)),
        skill("d", "another", license="MIT"),
    )
    page = shelf.now.search(SearchQuery("find", limit=1))
    assert page.total == 3
    assert page.facets["license"] == (FacetValue("MIT", 2), FacetValue("Apache-2.0", 1))
    assert page.facets["kind"] == (
        FacetValue("scripts", 2),
        FacetValue("callable", 1),
        FacetValue("instructions", 1),
    )
    assert page.facets["tag"] == (FacetValue("data", 2), FacetValue("web", 2))
    chosen = {"license": frozenset({"MIT"}), "kind": frozenset({"scripts", "callable"})}
    assert shelf.find("find", facets=chosen) == ("b",)
    assert shelf.find(facets={"license": frozenset({"MIT"})}) == ("a", "b", "d")
    assert shelf.find(facets={"colour": frozenset({"red"})}) == ()


@pytest.mark.parametrize("text", ["", "alpha"])
def test_the_pages_of_a_search_are_all_of_its_hits_once(shelf, text):
    shelf.put(*(skill(f"s{number}", "alpha " * (number % 4 + 1)) for number in range(25)))
    everything, seen, after = shelf.find(text, limit=100), [], None
    while True:
        page = shelf.now.search(SearchQuery(text, limit=7, after=after))
        seen += page.names
        if page.next is None:
            break
        after = page.next
    assert tuple(seen) == everything
    assert len(set(seen)) == page.total == 25


def test_a_cursor_goes_on_by_name_in_another_revision_and_is_refused_for_ranked_hits(shelf):
    shelf.put(*(skill(f"s{number}", "alpha") for number in range(6)))
    listed, ranked = (shelf.now.search(SearchQuery(text, limit=2)).next for text in ("", "alpha"))
    shelf.put(skill("s0a", "alpha"), removed=["s1"])
    assert shelf.find(limit=2, after=listed) == ("s2", "s3")
    with pytest.raises(UsageError) as raised:
        shelf.find("alpha", limit=2, after=ranked)
    assert raised.value.code == "CURSOR"


@pytest.mark.parametrize("after", ["", "x", "AAAAAAAAAAAAczE", "\x00" * 16, "a" * 5000, "ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ", "listed"])
def test_a_cursor_that_is_none_is_refused(shelf, after):
    shelf.put(skill("s1", "alpha"), skill("s2", "alpha"))
    if after == "listed":
        after = shelf.now.search(SearchQuery(limit=1)).next
    with pytest.raises(UsageError) as raised:
        shelf.find("alpha", limit=1, after=after)
    assert raised.value.code == "CURSOR"


@pytest.mark.parametrize(
    "query",
    [
        SearchQuery("x" * (limits.SEARCH_TEXT_LENGTH + 1)),
        SearchQuery("x" * 1_000_000),
        SearchQuery(" ".join(f"a{number}" for number in range(limits.SEARCH_WORDS + 1))),
        SearchQuery(limit=0),
        SearchQuery(limit=limits.SEARCH_HITS + 1),
    ],
)
def test_what_is_beyond_the_bounds_is_refused(shelf, query):
    shelf.put(skill("one"))
    for search in (shelf.now.search, shelf.now.search_briefly):
        with pytest.raises(UsageError) as raised:
            search(query)
        assert raised.value.code == "QUERY"


def test_a_brief_search_gives_the_same_or_nothing(shelf):
    shelf.put(*(skill(f"s{number}", f"alpha beta{number % 2}") for number in range(20)))
    for query in (
        SearchQuery("", counted=False),
        SearchQuery("s7 "),
        SearchQuery("beta1 "),
        SearchQuery("beta1 ", {"kind": frozenset({"instructions"})}),
        SearchQuery("?", counted=False),
    ):
        assert shelf.now.search_briefly(query) == shelf.now.search(query)
    assert shelf.now.search_briefly(SearchQuery("alpah")) is None


def test_a_brief_search_never_looks_at_every_skill(shelf):
    shelf.put(*(skill(f"s{number}", "alpha") for number in range(501)))
    assert shelf.now.search_briefly(SearchQuery("alpha")) is None
    assert shelf.now.search_briefly(SearchQuery("", {"kind": frozenset({"instructions"})})) is None
    assert shelf.now.search_briefly(SearchQuery("")) is None
    counted = shelf.now.search(SearchQuery(""))
    assert shelf.now.search_briefly(SearchQuery("")) == counted  # they are counted once


def test_values_of_facets_are_counted_when_they_are_wanted(shelf):
    shelf.put(skill("one", "alpha"), skill("two", "alpha"))
    for text in ("alpha", ""):
        counted, bare = (shelf.now.search(SearchQuery(text, counted=wanted)) for wanted in (True, False))
        assert counted.facets["kind"] == (FacetValue("instructions", 2),)
        assert bare.facets == {}
        assert (bare.names, bare.total) == (counted.names, counted.total)


def test_a_brief_search_that_takes_too_long_is_given_up(shelf):
    shelf.put(*(skill(f"s{number}", "alpha") for number in range(500)))
    words = telling_words(read_words("alpha"))
    assert shelf.now.readers[1].find_briefly(words, seconds=-1) is None
    assert len(shelf.now.readers[1].find_briefly(words, seconds=30)) == 500
    assert shelf.now.search(SearchQuery("alpha")).total == 500


def hits(explanation, name):
    return {column: [text for text, is_hit in pieces if is_hit] for column, pieces in explanation.matches[name].items()}


def test_a_hit_is_explained_by_the_words_that_match_and_where(shelf):
    shelf.put(skill("csv-profile", "Profiles CSV files.", "scripts/profile.py", metadata={"tags": "Tables"}))
    found = shelf.now.explain("profiling csv table", ["csv-profile", "unknown"])
    assert hits(found, "csv-profile") == {
        "name": ["csv", "profile"],
        "tags": ["Tables"],
        "description": ["Profiles", "CSV"],
        "files": ["profile"],
    }
    assert found.corrections == {}
    assert shelf.now.explain("", ["csv-profile"]).matches == {}


@pytest.mark.parametrize(
    ("text", "corrections"),
    [
        ("comitting ", {"comitting": "committing"}),
        ("commiting", {}),
        ("cvs files", {"cvs": "csv"}),
        ("csv", {}),
        ("zzz", {}),
    ],
)
def test_a_word_that_no_skill_has_is_named_with_the_one_that_was_looked_for(shelf, text, corrections):
    shelf.put(skill("git", "Helps with committing."), skill("csv-profile", "Profiles files."))
    page = shelf.now.search(SearchQuery(text))
    assert shelf.now.explain(text, page.names).corrections == corrections
    assert bool(page.names) is (text != "zzz")


def test_words_two_letters_away_and_names_are_proposed(shelf):
    shelf.put(skill("warehouse-pickup", "Picks items."), skill("invoice", "Writes an invoice."))
    assert shelf.now.suggest("wharehuose") == ["warehouse"]
    assert shelf.now.suggest("warehous picup")[0] == "warehouse pickup" or "warehouse-pickup" in shelf.now.suggest(
        "warehouse picup"
    )
    assert shelf.now.suggest("quite different") == []


def test_no_word_of_a_skill_that_is_gone_is_proposed(shelf):
    kept = shelf.put(skill("open", "Nothing."), skill("plans", "About skunkworks."))
    now = shelf.put(removed=["plans"])
    assert kept.suggest("skumkworts") == ["skunkworks"]
    assert now.suggest("skumkworts") == []
    assert now.explain("skunkwork", now.search(SearchQuery("skunkwork")).names).corrections == {}


def test_an_order_is_kept_from_page_to_page(shelf):
    names = [f"tool-{letter}" for letter in "abcdef"]
    shelf.put(*(skill(name, "A tool.") for name in names))
    values = {"tool-c": 9.0, "tool-e": 5.0}
    wanted = ["tool-c", "tool-e", "tool-a", "tool-b", "tool-d", "tool-f"]
    for text in ("", "tool"):
        query, found = SearchQuery(text, limit=2, order="downloads"), []
        while True:
            page = shelf.now.search(query, values)
            found += page.names
            if page.next is None:
                break
            query = replace(query, after=page.next)
        assert found == wanted
    assert shelf.find("tool", order="name") == tuple(names)
    with pytest.raises(UsageError, match="CURSOR"):
        shelf.find("tool", order="name", after=shelf.now.search(SearchQuery("tool", limit=2)).next)
