"""How typos are told, against the definition."""

from hypothesis import given
from hypothesis import strategies as st

from skillwire.resolver.rank import is_one_edit, rank

WORDS = st.text("abc", max_size=6)


def edits(word):
    """Return everything that at most one edit makes of ``word``."""
    splits = [(word[:index], word[index:]) for index in range(len(word) + 1)]
    return {
        word,
        *(before + after[1:] for before, after in splits),
        *(before + letter + after[1:] for before, after in splits for letter in "abc" if after),
        *(before + letter + after for before, after in splits for letter in "abc"),
        *(before + after[1] + after[0] + after[2:] for before, after in splits if len(after) > 1),
    }


@given(WORDS, WORDS)
def test_one_edit_is_what_the_definition_says(word, other):
    assert is_one_edit(word, other) == (other in edits(word))


@given(WORDS, st.randoms())
def test_every_edit_is_found(word, random):
    assert is_one_edit(word, random.choice(sorted(edits(word))))


@given(st.text(max_size=30), st.lists(st.tuples(st.text(max_size=10), st.text(max_size=30)), max_size=6))
def test_any_text_can_be_searched_for_in_any_text(query, items):
    hits = rank(query, items, lambda item: item)
    assert all(item in items for item, _ in hits)
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
