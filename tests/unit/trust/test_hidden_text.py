"""What counts as hidden, what real writing needs, and what is shown instead."""

import random
from pathlib import Path

import pytest

from skillwire.trust.hidden_text import RANGES, find_hidden, neutralise, reveal

# ruff: noqa: RUF001  # the letters of other scripts are the subject
REAL = {
    "latin": "café, naïve, Ångström — “quotes” … € 5 nbsp",
    "combining": "e\u0301 a\u0308",
    "japanese": "日本語のテキスト、半角カナ ﾊﾝｶｸ",
    "ideographic variation": "葛\U000e0100飾区、辻\U000e0101",
    "korean": "한국어",
    "arabic": "العربية \u200fC++\u200f نص",
    "hebrew": "עברית \u200e(A)",
    "persian": "می\u200cخواهم",
    "heh with joiner": "ه\u200d. 1400",
    "hindi": "हिन्दी क्\u200dष र\u094d\u200c",
    "sinhala": "ශ්\u200dරී",
    "thai": "ภาษา\u200bไทย",
    "khmer": "ភាសា\u200bខ្មែរ",
    "mongolian": "ᠮᠣᠩᠭᠣᠯ\u180b",
    "braille": "⠓⠑\u2800⠇⠇",
    "mathematics": "a ≨\ufe00 b ∩\ufe00 c",
    "heart": "❤️ ☠︎ ©️ ℹ️ ⬛️ ↔️",
    "key cap": "1️⃣ #️⃣",
    "family": "👨\u200d👩\u200d👧 👩🏽\u200d🚀 🏳️\u200d🌈 🧑\u200d❤️\u200d🧑",
    "flags": "🇫🇷 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f!",
    "white space": "a\tb\nc\r\nd\u3000e\u202ff",
}


@pytest.mark.parametrize("text", REAL.values(), ids=REAL)
def test_real_writing_passes_unchanged(text):
    assert find_hidden(text) == []
    assert neutralise(text) == text


@pytest.mark.parametrize(
    ("text", "shown", "name"),
    [
        ("a\x1b[31mb", "a[U+001B][31mb", "terminal escape"),
        ("a\rb", "a[U+000D]b", "carriage return"),
        ("a\r\r\nb", "a[U+000D]\r\nb", "carriage return"),
        ("a\x00b", "a[U+0000]b", "control character"),
        ("a\x9b31m", "a[U+009B]31m", "control character"),
        ("a\x85b", "a[U+0085]b", "control character"),
        ("sof\u00adt", "sof[U+00AD]t", "soft hyphen"),
        ("a\u200bb", "a[U+200B]b", "zero-width space"),
        ("a\u200cb", "a[U+200C]b", "zero-width joiner"),
        ("👨\u200d word", "👨[U+200D] word", "zero-width joiner"),
        ("می\u200c\u200cخ", "می[U+200C x2]خ", "zero-width joiner"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f[U+FE0F]", "variation selector"),
        ("a\ufe0f", "a[U+FE0F]", "variation selector"),
        ("😀\U000e0172\U000e0175", "😀[U+E0172 and 1 more]", "variation selector"),
        ("葛\U000e0100\U000e0100", "葛\U000e0100[U+E0100]", "variation selector"),
        ("a\u200eb", "a[U+200E]b", "direction mark"),
        ("א\u200f\u200fב", "א\u200f[U+200F]ב", "direction mark"),
        ("\ufeffa", "[U+FEFF]a", "byte order mark"),
        ("a\u2800b", "a[U+2800]b", "braille blank"),
        ("a\u3164b", "a[U+3164]b", "hangul filler"),
        ("a\ue000b", "a[U+E000]b", "private-use character"),
        ("a\U0010fffdb", "a[U+10FFFD]b", "private-use character"),
        ("a\U0001ffffb", "a[U+1FFFF]b", "noncharacter"),
        ("a\ud800b", "a[U+D800]b", "half of a surrogate pair"),
        ("a\U000e0001b", "a[U+E0001]b", "tag character"),
        ("🏴\U000e0069\U000e007f", "🏴[U+E0069 and 1 more]", "tag character"),
        ("x\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "x[U+E0067 and 5 more]", "tag character"),
    ],
)
def test_hidden_text_is_named_and_shown(text, shown, name):
    assert [run.name for run in find_hidden(text)] == [name]
    assert neutralise(text) == shown
    assert neutralise(shown) == shown


def test_a_run_is_named_after_its_first_character():
    assert find_hidden("a\u200b\u202e\u202cb\r") == [(1, 3, "zero-width space"), (5, 1, "carriage return")]


@pytest.mark.parametrize("first_and_last", [row[:2] for row in RANGES], ids=lambda pair: f"{pair[0]:04X}")
def test_each_row_of_the_table_is_hidden_between_latin_letters(first_and_last):
    for code in first_and_last:
        assert find_hidden(f"a{chr(code)}b")


def test_the_table_is_in_order_and_does_not_overlap():
    edges = [edge for first, last, _ in RANGES for edge in (first, last)]
    assert edges == sorted(edges)


def test_reveal_spells_tags():
    assert reveal("".join(chr(0xE0000 + ord(letter)) for letter in "ignore ~ all") + "\U000e007f") == "ignore ~ all"


def _corpus():
    for path in sorted((Path(__file__).parents[2] / "corpus").rglob("*")):
        if path.is_file() and path.stat().st_size < 1_000_000:
            yield path.read_bytes().decode("utf-8", "replace")


def _random_texts():
    numbers = random.Random(1)  # noqa: S311  # repeatable
    characters = "ab \t\r\n\x0b\x0c\x00\x7f\x85\u00a0\u200b\u200d\u200e\ufe0f\u2800é漢\U0001f600\U000e0061\ud800\udc00"
    for _ in range(5_000):
        yield "".join(numbers.choices(characters, k=numbers.randrange(12)))


def test_a_text_has_the_same_hidden_characters_behind_another_one():
    number = 0
    for text in (*REAL.values(), *_corpus(), *_random_texts()):
        behind = find_hidden(f"\u202ex{text}")
        assert behind == [(0, 1, behind[0].name), *((one.start + 2, *one[1:]) for one in find_hidden(text))]
        number += len(behind) > 1
    assert number > 1_000
