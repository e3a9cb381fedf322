"""What every search finds, narrows, counts and pages, whatever it ranks by and however it is made."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.support.catalogs import make_skill
from tests.support.memory_search import MemorySkillIndex

from skillwire import limits
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import UsageError
from skillwire.model.catalog import FacetValue, SearchQuery


class Shelf:
    """Skills and their index, as a publication changes them."""

    def __init__(self, index):
        self.index = index
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


@pytest.fixture(params=["memory", "sqlite"])
def shelf(request, tmp_path):
    return Shelf(MemorySkillIndex() if request.param == "memory" else SearchIndex(tmp_path))


def test_an_empty_index_finds_nothing(shelf):
    for text in ("", "any", "!", "a b c", "any "):
        page = shelf.now.search(SearchQuery(text))
        assert (page.names, page.total, page.next) == ((), 0, None)
        assert shelf.now.search_briefly(SearchQuery(text)) in [None, page]
        assert shelf.now.explain(text, ["any"]).matches == {}
        assert list(shelf.now.suggest(text)) == []


def test_what_has_all_the_words_is_found_and_without_any_what_has_some(shelf):
    shelf.put(
        skill("deploy-cluster", "Rolls out to kubernetes."),
        skill("notes", "Writes.", metadata={"tags": "Deploy, kubernetes"}),
        skill("charts", "Draws.", "references/deploy-kubernetes.md"),
        skill("deploy", "Puts a site online."),
    )
    assert set(shelf.find("deploy kubernetes")) == {"deploy-cluster", "notes", "charts"}
    assert shelf.find("Deploy")[0] == "deploy"
    assert set(shelf.find("draws unheard-of")) == {"charts"}
    assert set(shelf.find("kubern")) == {"deploy-cluster", "notes", "charts"}


@pytest.mark.parametrize("text", ["deploy", "a deploy b", "none", "", "!"])
def test_a_rank_has_all_hits_of_all_pages_in_their_order(shelf, text):
    shelf.put(*(skill(f"s{number}", "Deploy. " * (number % 5 + 1)) for number in range(30)), skill("deploy"))
    found = shelf.find(text, limit=limits.SEARCH_HITS) if text else ()
    assert tuple(shelf.now.rank(text)) == found


HOSTILE = (
    *('"', '" OR 1', "name:x", "alpha*", "NEAR(alpha beta)", "alpha AND NOT beta", "-alpha", "^alpha", "(", "\0", "%"),
    *("'; DROP TABLE skills; --", "\u202e", "é" * 200, "alpha " * 40, "a\nb", "\ud800", "alpha\0"),
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_is_a_syntax_of_queries(shelf, text):
    shelf.put(skill("alpha", "Beta."), skill("other", "Not this."))
    page = shelf.now.search(SearchQuery(text))
    assert set(page.names) <= {"alpha", "other"}
    assert shelf.now.search_briefly(SearchQuery(text)) in [None, page]
    shelf.now.explain(text, page.names)
    shelf.now.suggest(text)
    assert shelf.find("beta") == ("alpha",)


def test_a_brief_search_is_the_same_or_none(shelf):
    shelf.put(*(skill(f"s{number}", f"alpha beta{number % 2}") for number in range(20)))
    kinds = {"kind": frozenset({"instructions"})}
    for text in ("", "s7 ", "beta1 ", "alpah", "?"):
        for more in ({}, {"facets": kinds}, {"counted": False}, {"limit": 3}, {"order": "name"}):
            query = SearchQuery(text, **more)
            assert shelf.now.search_briefly(query) in [None, shelf.now.search(query)]


def test_a_hit_is_explained_by_the_words_that_match(shelf):
    shelf.put(skill("csv-profile", "Profiles CSV files.", "scripts/profile.py"))
    found = shelf.now.explain("csv", ["csv-profile", "unknown"])
    assert list(found.matches) == ["csv-profile"]
    columns = found.matches["csv-profile"]
    assert "".join(text for text, _ in columns["description"]) == "Profiles CSV files."
    assert [text for text, is_hit in columns["description"] if is_hit] == ["CSV"]
    assert [text for text, is_hit in columns["name"] if is_hit] == ["csv"]
    assert shelf.now.explain("", ["csv-profile"]).matches == {}


def test_names_like_the_text_are_proposed(shelf):
    shelf.put(skill("warehouse-pickup", "Picks items."), skill("invoice", "Writes one."))
    assert any("warehouse" in one for one in shelf.now.suggest("warehouse-picup"))
    assert list(shelf.now.suggest("quite different")) == []


def test_searches_go_on_while_the_index_changes(shelf):
    old = shelf.put(*(skill(f"s{number}", "alpha") for number in range(30)))

    def find(_):
        return old.search(SearchQuery("alpha")).total, old.explain("alpha", ["s1"]).matches.keys()

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(find, range(60))
        for number in range(10):
            shelf.put(skill(f"t{number}", "alpha"), removed=[f"s{number}"])
        assert list(found) == [(30, {"s1"})] * 60
    assert shelf.now.search(SearchQuery("alpha")).total == 30


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


def test_values_of_facets_are_counted_when_they_are_wanted(shelf):
    shelf.put(skill("one", "alpha"), skill("two", "alpha"))
    for text in ("alpha", ""):
        counted, bare = (shelf.now.search(SearchQuery(text, counted=wanted)) for wanted in (True, False))
        assert counted.facets["kind"] == (FacetValue("instructions", 2),)
        assert bare.facets == {}
        assert (bare.names, bare.total) == (counted.names, counted.total)


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
