"""Each protocol's SPEC.md and the tests that name its clauses are the same list."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TESTS = PROJECT / "tests"
PAGES = sorted((PROJECT / "src" / "skillwire" / "protocols").glob("*/SPEC.md"))


def rows(page):
    return re.findall(r"^\| ([A-Z]{3}-[a-z0-9-]+) \|", page.read_text(), re.MULTILINE)


def clauses_of_tests():
    """Return the clauses that tests are marked with, read from their source, so that a skipped one counts too."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        if "node_modules" in path.parts:
            continue
        for arguments in re.findall(r"\.spec\(([^()]*)\)", path.read_text()):
            found |= set(re.findall(r'"([^"{]+)"', arguments))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_clause_stands_in_one_row(page):
    assert rows(page)
    assert len(set(rows(page))) == len(rows(page))


def test_every_row_has_a_test_and_every_test_a_row():
    listed = {row for page in PAGES for row in rows(page)}
    tested = clauses_of_tests()
    assert listed - tested == set(), "rows without a test"
    assert tested - listed == set(), "tests of a clause that is in no row"
