"""Whatever a stranger searches for, an answer or a refusal comes back, and nothing else."""

import random
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import make_skill

from skillwire import limits
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import UsageError
from skillwire.model.catalog import SearchQuery
from skillwire.registry.search import FacetCounts, Profile, count_facets, make_cursor, read_cursor
from skillwire.server.search import read_parameters

#: What FTS5's query language is made of, among words that occur.
_FTS = st.lists(
    st.sampled_from(
        ['"', "*", "(", ")", "AND", "OR", "NOT", "NEAR(", "^", "name:", "{a b}:", "+", "-", "\x00", "skill", "1", " "]
    )
).map("".join)
_TEXTS = st.one_of(st.text(), _FTS, st.text(st.characters(categories=["Lo", "Mn", "Nd", "No", "Cs", "Co"])))


@cache
def _search():
    names = [f"skill-{number}" for number in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        return SearchIndex(Path(folder)).update({name: make_skill(name) for name in sorted(names)}, names, ())


@given(
    _TEXTS, st.dictionaries(st.text(max_size=5), st.frozensets(st.text())), st.integers(-1, 200), st.none() | st.text()
)
def test_a_search_gives_a_page_or_a_usage_error(text, facets, limit, after):
    query = SearchQuery(text, facets, limit, after)
    try:
        page = _search().search(query)
    except UsageError as error:
        assert error.code in {"QUERY", "CURSOR"}  # noqa: PT017  # both outcomes are right
    else:
        assert len(page.names) <= limit
        assert page.total >= len(page.names)
        brief = _search().search_briefly(query)
        assert brief is None or brief == page


@given(st.binary(max_size=300))
def test_any_query_of_a_url_is_read_or_refused(query):
    try:
        read = read_parameters(query)
    except UsageError as error:
        assert error.code == "QUERY"  # noqa: PT017  # both outcomes are right
    else:
        assert read.limit <= 9999


@given(st.from_regex(r"\A[a-z0-9]{1,20}(-[a-z0-9]{1,20}){0,2}\Z"), st.binary(min_size=9, max_size=9))
def test_a_cursor_is_read_as_it_was_made(name, mark):
    name = name[: limits.NAME_LENGTH]
    if name not in {"con", "prn", "aux", "nul"}:
        assert read_cursor(make_cursor(name, mark), mark) == name


@given(st.integers(), st.sampled_from([3, 60, 700, 5_000]))
def test_facets_counted_by_bits_are_those_counted_one_by_one(seed, values):
    source = random.Random(seed)  # noqa: S311  # repeatable, nothing secret

    def words(most):
        return tuple(dict.fromkeys(f"v{source.randrange(values)}" for _ in range(source.randint(0, most))))

    profiles = [Profile(words(1), words(1), words(6)) if source.random() < 0.9 else None for _ in range(1_000)]
    slots = [slot for slot, profile in enumerate(profiles) if profile and source.random() < 0.5]
    assert FacetCounts(profiles).of(slots) == count_facets([one for slot in slots if (one := profiles[slot])])
