r"""Hidden text: characters that a person does not see and that a model, or a terminal, obeys.

A tag character spells invisible ASCII; a bidirectional override reverses the reading order; an escape character
controls the terminal; a variation selector hides a byte after each emoji. :func:`find_hidden` examines text from
outside, and :func:`neutralise` prepares it for display.

The table :data:`RANGES` names every character that draws nothing, or draws what cannot be checked. Real writing needs
some of them in a certain context, such as a joiner between emoji or Persian letters; ``_FITS`` has one pattern for each
such use. One character in its context is accepted; two in a row are hidden text.
Spec: specs §1 "a skill is a prompt-injection vector".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import Final, NamedTuple

_FIRST_PLANE: Final = 0xFFFF
_LENGTH: Final = 160  # of a line that is shown
_SPELLED: Final = 120  # characters of what tags spell
_WIDE: Final = frozenset("WF")
#: Marks drawn upon the character before them, and what only directs or joins.
_DRAWN_ON: Final = frozenset({"Mn", "Me", "Cf"})

#: What a character is → the ranges of such code points, in hexadecimal.
_KINDS: Final = {
    "control character": "0-8 B-C E-1A 1C-1F 7F-9F",
    "carriage return": "D",
    "terminal escape": "1B",
    "soft hyphen": "AD",
    "grapheme joiner": "34F",
    "direction mark": "61C 200E-200F",
    "hangul filler": "115F-1160 3164 FFA0",
    "invisible vowel": "17B4-17B5",
    "variation selector": "180B-180D 180F FE00-FE0F E0100-E01EF",
    "vowel separator": "180E",
    "zero-width space": "200B",
    "zero-width joiner": "200C-200D",
    "line separator": "2028-2029",
    "direction override": "202A-202E",
    "word joiner": "2060",
    "invisible operator": "2061-2065",
    "direction isolate": "2066-2069",
    "deprecated format character": "206A-206F",
    "braille blank": "2800",
    "half of a surrogate pair": "D800-DFFF",
    "private-use character": "E000-F8FF F0000-10FFFF",
    "noncharacter": (
        "FDD0-FDEF FFFE-FFFF 1FFFE-1FFFF 2FFFE-2FFFF 3FFFE-3FFFF 4FFFE-4FFFF 5FFFE-5FFFF 6FFFE-6FFFF "
        "7FFFE-7FFFF 8FFFE-8FFFF 9FFFE-9FFFF AFFFE-AFFFF BFFFE-BFFFF CFFFE-CFFFF DFFFE-DFFFF"
    ),
    "byte order mark": "FEFF",
    "unassigned format character": "FFF0-FFF8 E0080-E00FF E01F0-E0FFF",
    "interlinear annotation": "FFF9-FFFB",
    "object placeholder": "FFFC",
    "hieroglyph format control": "13430-1343F",
    "shorthand format control": "1BCA0-1BCA3",
    "invisible note": "1D159",
    "musical format control": "1D173-1D17A",
    "tag character": "E0000-E007F",
    "unassigned character": "E1000-EFFFF",
}
#: First and last code point, and what they are, in the order of the code points.
RANGES: Final[tuple[tuple[int, int, str], ...]] = tuple(
    sorted(
        (int(first, 16), int(last or first, 16), name)
        for name, ranges in _KINDS.items()
        for first, _, last in (one.partition("-") for one in ranges.split())
    )
)

_PICTURE: Final = r"\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING: Final = (
    r"\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18aa\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
)
_SPACELESS: Final = r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\ua9e0-\ua9ff\uaa60-\uaadf"
_RIGHT_TO_LEFT: Final = (
    r"[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_IDEOGRAPH: Final = r"\u2e80-\u2fff\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TAG_FLAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)

#: A use of such a character in real writing: what must stand before it, the character, what must follow.
_FITS: Final = "|".join(
    (
        rf"(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])",  # a family, a rainbow flag
        rf"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}\s.,;:!?)\]]|\Z)",  # Persian, Hindi, Sinhala
        rf"(?<=[{_PICTURE}\u00a9\u00ae\u203c\u2049\u2122\u2139])[\ufe0e\ufe0f]",  # as text, as picture
        r"(?<=[0-9#*])\ufe0f(?=\u20e3)",  # a key cap
        rf"(?<=[{_IDEOGRAPH}])[\ufe00-\ufe02\U000e0100-\U000e01ef]",  # a variant in a Japanese name
        r"(?<=[\u2200-\u22ff\u2a00-\u2aff])\ufe00",  # a variant of a mathematical sign
        r"(?<=[\u1820-\u18aa])[\u180b-\u180f]",  # Mongolian
        rf"(?<=[{_SPACELESS}])\u200b(?=[{_SPACELESS}])",  # where a Thai or Khmer line may break
        r"(?<=[\u2801-\u28ff])\u2800(?=[\u2801-\u28ff])",  # a space in braille
        r"(?<=[\U00013000-\U0001342f])[\U00013430-\U0001343f]",  # hieroglyphs
    )
)
#: The sorts that ``_FITS`` and ``_passes`` may let through; every other one is always hidden.
_SOMETIMES_TEXT: Final = (
    "carriage return", "direction mark", "variation selector", "vowel separator", "zero-width joiner",
    "zero-width space", "braille blank",
)  # fmt: skip
_ALWAYS: Final = "".join(
    f"\\u{first:04x}-\\u{last:04x}"
    for first, last, name in RANGES
    if last <= _FIRST_PLANE and name not in _SOMETIMES_TEXT
)
_RUN: Final = rf"(?:[{_ALWAYS}]|\r(?!\n))+"
# Within the first plane the engine tests a set by one look-up; above it, it would try range after range.
_SUSPECT: Final = rf"[{_ALWAYS}\r\u061c\u180b-\u180f\u200b-\u200f\u2800\ufe00-\ufe0f]|[\U00010000-\U0010ffff]"
#: Bytes that are no part of a hidden character; without them most texts are a tenth as long.
_PLAIN: Final = b"\t\n" + bytes(range(ord(" "), 0x7F))
_FIRSTS: Final = [first for first, _, _ in RANGES]
_TAGS: Final = 0xE0000
_MARKS: Final = "\u061c\u200e\u200f"


class Hidden(NamedTuple):
    """A run of hidden characters: where it begins, how many they are, and what the first one is."""

    start: int
    length: int
    name: str


def find_hidden(text: str) -> list[Hidden]:
    """Return the runs of hidden characters in ``text``. Trust: hostile; linear time, under a second for 1 MiB."""
    if text.isascii() and text.isprintable():
        return []
    others = text.encode("utf-8", "surrogatepass").replace(b"\r\n", b"").translate(None, _PLAIN)
    if not others or not _compiled(_SUSPECT).search(others.decode("utf-8", "surrogatepass")):
        return []
    return _find_runs(text)


def _find_runs(text: str) -> list[Hidden]:
    runs: list[Hidden] = []
    done = 0
    for found in _compiled(_SUSPECT).finditer(text):
        start = found.start()
        if start < done:
            continue
        run = _compiled(_RUN).match(text, start)
        if run is None and (done := _passes(text, start)) > start:
            continue
        done = run.end() if run else start + 1
        if runs and runs[-1].start + runs[-1].length == start:
            runs[-1] = runs[-1]._replace(length=done - runs[-1].start)
        else:
            runs.append(Hidden(start, done - start, _range_of(ord(text[start]))[2]))
    return runs


def neutralise(text: str) -> str:
    """Return ``text`` with each run of hidden characters replaced by a note: ``[U+202E]``, ``[U+E0069 and 29 more]``.

    One character that repeats is ``[U+202E x3]``. The hidden words, which a model might decode from escapes, are
    removed. The result is safe for terminals and models, and neutralising it again changes nothing.
    """
    parts = []
    end = 0
    for index, length, _ in find_hidden(text):
        others = (
            f" x{length}" if text.count(text[index], index, index + length) == length else f" and {length - 1} more"
        )
        parts += [text[end:index], f"[U+{ord(text[index]):04X}{others if length > 1 else ''}]"]
        end = index + length
    return "".join([*parts, text[end:]]) if parts else text


def reveal(run: str) -> str:
    """Return the ASCII text that the tag characters of ``run`` spell, for a finding."""
    return "".join(chr(ord(tag) - _TAGS) for tag in run if _TAGS + 0x20 <= ord(tag) < _TAGS + 0x7F)


def describe_hidden(characters: str, run: Hidden) -> str:
    """Return what the run of ``characters`` is, and the ASCII text that its tag characters spell."""
    first = f"U+{ord(characters[0]):04X}"
    description = f"1 hidden character, a {run.name} ({first})"
    if run.length > 1:
        description = f"{run.length} hidden characters, the first a {run.name} ({first})"
    spelled = neutralise(reveal(characters))
    return f"{description}, spelling {spelled[:_SPELLED]!r}" if spelled else description


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile on first use: together the patterns cost 5 ms, and most texts are plain ASCII."""
    return re.compile(pattern)


def _passes(text: str, index: int) -> int:
    """Return the index after the character if its context allows it, else ``index``."""
    character = text[index]
    if character == "\r":
        return index + 1  # the one before a line feed; every other is in a run
    if character in _MARKS:
        # A single mark passes near a letter whose direction it can affect.
        is_single = index == 0 or text[index - 1] not in _MARKS
        near = _compiled(_RIGHT_TO_LEFT).search(text, max(0, index - 40), index + 40)
        return index + (is_single and near is not None)
    if character > "\uffff" and ord(character) > _range_of(ord(character))[1]:
        return index + 1
    if text.startswith(_TAG_FLAGS, index):
        return index + 6 if text[index - 1 : index] == "\U0001f3f4" else index
    fits = _compiled(_FITS).match(text, index)
    return fits.end() if fits else index


def _range_of(code: int) -> tuple[int, int, str]:
    return RANGES[bisect_right(_FIRSTS, code) - 1]


def excerpt(line: str) -> str | None:
    """Return ``line`` without a final carriage return, or None when it has more than 160 characters.

    A line of untrusted text may be very long, and a part of it would need another column.
    """
    line = line.removesuffix("\r")
    return line if len(line) <= _LENGTH else None


def display_width(text: str) -> int:
    """Return how many columns ``text``, which is one line, fills."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415 - --help shows ASCII alone

    drawn = (letter for letter in text if category(letter) not in _DRAWN_ON)
    return sum(2 if east_asian_width(letter) in _WIDE else 1 for letter in drawn)
