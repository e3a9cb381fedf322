"""Lists of skills and their cursors: every skill once, in order, whatever the pages are."""

import json

import pytest
from tests.support.catalogs import make_catalog, make_skill

from skillwire.errors import Place, UsageError
from skillwire.model.skill import Identifiers
from skillwire.protocols.skills_rpc.cursor import decode_cursor, encode_cursor
from skillwire.protocols.skills_rpc.index import SkillIndex, dotted_name, listed, namespace_of
from skillwire.protocols.skills_rpc.messages import ListSkills


def named(dotted, namespace="", **more):
    """Return a skill of a dotted name; the name in the catalog says nothing about it."""
    skill = make_skill(f"s-{dotted[::-1].replace('.', '-')}", **more)
    return skill._replace(identifiers=Identifiers("a/b", "c", dotted, namespace))


def index_of(*dotted):
    return SkillIndex(make_catalog(*map(named, dotted)).skills)


def page(index, **asked):
    return json.loads(index.page(ListSkills(**asked)))


def names(found):
    return [skill["name"] for skill in found["skills"]]


def walk(index, **asked):
    found, cursor = [], None
    while True:
        told = page(index, cursor=cursor, **asked)
        assert len(told["skills"]) <= asked.get("limit", 50)
        found += names(told)
        cursor = told["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.spec("SKP-list", "SKP-list-order")
def test_a_list_has_name_and_version_in_the_order_of_the_names():
    index = index_of("salesforce.leads.sync", "gdrive.files.read", "salesforce.contacts.export")
    assert page(index) == {
        "skills": [
            {"name": "gdrive.files.read", "version": "1.0.0"},
            {"name": "salesforce.contacts.export", "version": "1.0.0"},
            {"name": "salesforce.leads.sync", "version": "1.0.0"},
        ],
        "next_cursor": None,
    }


@pytest.mark.spec("SKP-list")
def test_a_summary_says_also_description_namespace_and_kind():
    skill = named("salesforce.leads.sync", "salesforce", kind="action")._replace(description='Says "ü".')
    told = page(SkillIndex(make_catalog(skill).skills), detail="summary")
    assert told["skills"] == [
        {
            "name": "salesforce.leads.sync",
            "version": "1.0.0",
            "description": 'Says "ü".',
            "namespace": "salesforce",
            "kind": "action",
        }
    ]


def test_a_namespace_that_the_skill_does_not_say_is_the_first_part_of_its_name():
    assert namespace_of(named("a.b.c")) == "a"
    assert namespace_of(named("a.b.c", "a.b")) == "a.b"
    without = make_skill("pdf-forms", publisher="Ex-Corp")._replace(identifiers=None)
    assert dotted_name(without) == "ex.corp.pdf.forms"
    assert listed(without).namespace == "ex"


@pytest.mark.spec("SKP-list-namespace")
@pytest.mark.parametrize(
    ("namespace", "found"),
    [
        (None, ["a", "a.b", "a.b.c", "a.bb", "a0.x", "ab.c", "b"]),
        ("", ["a", "a.b", "a.b.c", "a.bb", "a0.x", "ab.c", "b"]),
        ("a", ["a.b", "a.b.c", "a.bb"]),
        ("a.b", ["a.b.c"]),
        ("a.b.c", []),
        ("ab", ["ab.c"]),
        ("A", []),
        ("a.", []),
        ("zzz", []),
        ("a/../..", []),
    ],
)
def test_a_namespace_holds_the_names_below_it(namespace, found):
    index = index_of("b", "a", "a.b", "a.bb", "a.b.c", "ab.c", "a0.x")
    assert names(page(index, namespace=namespace)) == found
    assert walk(index, namespace=namespace, limit=1) == found


@pytest.mark.spec("SKP-list-pages")
@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 500])
def test_pages_follow_each_other_with_each_skill_once(limit):
    every = [f"a.x{number}" for number in range(7)]
    index = index_of(*every)
    assert walk(index, limit=limit) == every
    first = page(index, limit=limit)
    assert (first["next_cursor"] is None) == (limit >= 7)


@pytest.mark.spec("SKP-list-pages")
def test_a_page_has_50_skills_unless_said():
    index = index_of(*(f"a.x{number}" for number in range(60)))
    assert len(page(index)["skills"]) == 50
    assert len(walk(index)) == 60


def test_an_empty_index_has_an_empty_page():
    assert page(SkillIndex({})) == {"skills": [], "next_cursor": None}
    assert page(SkillIndex({}), detail="summary", namespace="a", limit=1) == {"skills": [], "next_cursor": None}
    assert len(SkillIndex({})) == 0
    assert SkillIndex({}).find("a") is None


@pytest.mark.spec("SKP-access")
def test_an_index_within_another_tells_its_own_skills_alone_and_the_same_of_them():
    catalog = make_catalog(*(named(f"a.x{number}") for number in range(9)))
    whole = SkillIndex(catalog.skills)
    for chosen in ([], [0], [8], [0, 8], [2, 3, 4], [1, 3, 4, 5, 8], list(range(9))):
        part = {name: skill for name, skill in catalog.skills.items() if int(name[2]) in chosen}
        narrow = SkillIndex(part, whole)
        assert len(narrow) == len(chosen)
        assert walk(narrow, limit=2) == [f"a.x{number}" for number in chosen]
        assert narrow.page(ListSkills(detail="summary")) == SkillIndex(part).page(ListSkills(detail="summary"))
        for number in range(9):
            assert (narrow.find(f"a.x{number}") is not None) == (number in chosen)
    assert whole.find("a.x") is None
    assert dotted_name(whole.find("a.x3") or make_skill("none")) == "a.x3"


@pytest.mark.spec("SKP-cursor")
def test_a_cursor_goes_on_behind_its_name_when_skills_come_and_go():
    cursor = page(index_of("a.b", "a.c", "a.d"), limit=2)["next_cursor"]
    assert names(page(index_of("a.b", "a.c", "a.d"), cursor=cursor)) == ["a.d"]
    assert names(page(index_of("a.a", "a.bb", "a.d", "a.e"), cursor=cursor)) == ["a.d", "a.e"]
    assert names(page(index_of("a.a"), cursor=cursor)) == []


@pytest.mark.spec("SKP-cursor")
@pytest.mark.parametrize("namespace", [None, "a", "a.b"])
@pytest.mark.parametrize("last", ["a", "a.b.c", "a.b.c0", "x" * 128])
def test_a_cursor_says_its_name_in_its_namespace_alone(namespace, last):
    cursor = encode_cursor(namespace, last)
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert decode_cursor(cursor, namespace) == last
    for other in {None, "a", "a.b", "b"} - {namespace}:
        with pytest.raises(UsageError) as caught:
            decode_cursor(cursor, other)
        assert caught.value.code == "CURSOR"


@pytest.mark.spec("SKP-cursor")
@pytest.mark.parametrize(
    "cursor",
    ["", "a", "!", "A" * 5000, "L2E=", " L2E", "L2E\n", "L2F", "////", "_w", "é", "\x00", "0", "bm8tc2xhc2g"],
)
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(UsageError) as caught:
        decode_cursor(cursor, None)
    assert caught.value.code == "CURSOR"
    assert caught.value.place == Place("/params/cursor")


def test_a_cursor_that_somebody_made_up_leads_nowhere_else():
    index = index_of("a.b", "b.c")
    assert names(page(index, namespace="b", cursor=encode_cursor("b", "a.a"))) == ["b.c"]
    assert names(page(index, namespace="a", cursor=encode_cursor("a", "zzz"))) == []
