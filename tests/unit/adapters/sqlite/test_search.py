"""The search index of SQLite: words that are like the text, the order of hits, and what a search costs."""

import gc

import pytest
from tests.contracts.test_search import Shelf, skill

from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.model.catalog import SearchQuery
from skillwire.registry.search import read_words, telling_words


@pytest.fixture
def shelf(tmp_path):
    return Shelf(SearchIndex(tmp_path))


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


def test_rows_that_no_revision_needs_are_taken_by_the_next_skills(shelf):
    for number in range(20):
        search = shelf.put(skill("one", f"word{number}"))
        del search
        gc.collect()
    assert len(shelf.now.names) <= 3
    assert shelf.find("word19 ") == ("one",)


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
