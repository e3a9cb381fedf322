r"""What a text asks of an agent that its user would refuse: the rules that ``check`` and ``add`` share.

The patterns match plain text, so they point a reader to a place and prove nothing. A text is searched for the literals
of a pattern first, thirty times as fast: most texts lack some, so installing rarely compiles one. Trust: hostile;
repetitions are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import SourceLocation
from skillwire.trust.guarded_json import place_of_range


class Danger(NamedTuple):
    """A danger in a file: its lint rule, a message, its place, and the text that fits."""

    code: str
    message: str
    place: SourceLocation
    text: str


_SHELLS: Final = (
    r"(?:sudo\s+(?:-\S+\s+){0,8})?(?:env\s+(?:[^\s=]+=\S*\s+){0,8})?(?:/(?:[^\s|]+\|){0,4}[^\s|]+/)?"
    r"(?:(?:ba|z|da|k|fi|a)?sh|python[0-9.]*|node|perl|ruby|php)\b(?![0-9.]*\s+-m\s+json\.tool\b)"
)
#: The rest of a command, and of a line. Bounded, and ended by the next name that begins a pattern: each of these names
#: would look through all that follows.
_REST: Final = r"(?:\\\r?\n|(?!\b(?:curl|wget)\b)[^\n|;]){0,200}?"
_LINE: Final = r"[^\n]{0,200}"
_USER: Final = r"(?:the\s+|your\s+)?(?:user|human|operator)s?\b"
_UNSEEN: Final = ("knowledge", "knowing", "noticing")
_KEYS: Final = ("id_rsa", "id_ed25519", "id_ecdsa")
_HOME: Final = r"(?:~|\$\{?HOME\}?|/root|/home/[^/\s]{1,64}|%USERPROFILE%)"

#: Rule, message, groups of literals, and pattern; each match contains at least one literal of every group.
_PATTERNS: Final = (
    (
        "PIPE_TO_SHELL",
        "the output of a download is run unseen",
        (
            ("curl", "wget", "iex", "invoke-expression"),
            ("|", "<(", "$(", "`", "iex", "invoke-expression"),
            ("curl", "wget", "irm", "iwr", "invoke-", "downloadstring"),
        ),
        (
            rf"\b(?:curl|wget)\b{_REST}\|\s*(?:tee\b{_REST}\|\s*)?{_SHELLS}"
            r"|\b(?:(?:ba|z|k)?sh|source|python[0-9.]*)\s+(?:-\S+\s+){0,8}<\(\s*(?:curl|wget)\b[^\n)]{0,200}\)?"
            rf"|\b(?:ba|z|da|k)?sh\s+-\w*c\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b{_LINE}"
            rf"|\beval\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b{_LINE}"
            rf"|\b(?:irm|iwr|invoke-webrequest|invoke-restmethod|curl|wget)\b[^\n|]{{0,200}}\|\s*(?:iex|invoke-expression)\b"
            r"|\b(?:iex|invoke-expression)\b(?:(?!\b(?:iex|invoke-expression)\b)[^\n]){0,200}"
            rf"\b(?:irm|iwr|invoke-webrequest|invoke-restmethod|downloadstring)\b{_LINE}"
        ),
    ),
    (
        "AGENT_OVERRIDE",
        "an agent is asked to ignore its instructions",
        (("instruction", "prompt", "guideline"), ("ignore", "disregard", "forget", "override", "bypass")),
        (
            r"\b(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){0,4}?(?:previous|prior|above|earlier|system)\s+"
            r"(?:\w+\s+){0,2}?(?:instruction|prompt|guideline)s?\b"
        ),
    ),
    (
        "AGENT_OVERRIDE",
        "an agent is asked to hide something from its user",
        (
            ("user", "human", "operator"),
            ("tell", "inform", "notify", "alert", "mention", "reveal", "disclose", "hide", "conceal", "keep", *_UNSEEN),
        ),
        (
            rf"\b(?:do\s+not|don['\u2019]t|never|without)\s+(?:tell|inform|notify|alert)(?:ing)?\s+{_USER}"
            rf"|\b(?:do\s+not|don['\u2019]t|never)\s+(?:mention|reveal|disclose)\s+(?:this|that|it|these)\b[^.\n]{{0,40}}\bto\s+{_USER}"
            rf"|\b(?:hide|conceal|keep)\s+(?:this|that|it|these)\b[^.\n]{{0,40}}\bfrom\s+{_USER}"
            r"|\bwithout\s+the\s+user(?:['\u2019]s\s+knowledge|\s+knowing|\s+noticing)\b"
        ),
    ),
    (
        "CREDENTIAL_FILE",
        "this file holds credentials of its user",
        (
            ("~", "home", "/root", "%userprofile%", "/etc/shadow", *_KEYS),
            (".ssh", ".aws", ".netrc", ".git-credentials", ".gnupg", ".kube", ".config", "/etc/shadow", *_KEYS),
        ),
        (
            rf"{_HOME}[/\\]\.(?:ssh\b(?![/\\](?:config|known_hosts|[\w.*-]{{1,64}}\.pub\b))(?:[/\\][\w.-]*)?|aws[/\\]credentials|netrc\b|git-credentials|gnupg\b"
            r"|kube[/\\]config|config[/\\]gcloud)|/etc/shadow\b|\bid_(?:rsa|ed25519|ecdsa)\b(?!\.pub)"
        ),
    ),
    (
        "DESTRUCTIVE_COMMAND",
        "this destroys the files of its user",
        (("rm ", "mkfs", "of=/dev/"),),
        (
            r"(?<![\w-])rm\s+(?=(?:-\S{1,20}\s+){0,4}?-(?:\w{0,8}r|-recursive))(?:-\S{1,20}\s+){1,5}"
            r"[\"']?(?:~|/|\$\{?HOME\}?)/?(?:\.?\*)?[\"']?(?=[.,]{0,3}(?:[\s;&|)`\"']|\Z))"
            r"|\bmkfs(?:\.\w+)?\s+(?:-\S+\s+){0,8}/dev/|\bdd\s[^\n|;]{0,80}\bof=/dev/(?:sd|hd|nvme|disk|mmcblk)"
        ),
    ),
)
#: A comment of HTML, or of Markdown, and what addresses an agent or runs something in it. No possessive group holds a
#: lookahead: Python before 3.11.5 goes on behind what the lookahead saw.
COMMENT: Final = r"<!--.*?(?=-->|\Z)|^ {0,3}\[(?://|comment)\]:[^\n]*"
_ADDRESSED: Final = (
    r"\byou\s+(?:must|should|are|have|will)\b|\b(?:the|this|any|an|every)\s+(?:ai\s+)?(?:agent|assistant|model|llm)\b"
    r"|\b(?:system|assistant|agent|claude|gpt|copilot)\s*:|\b(?:curl|wget|ssh|scp)\s|https?://(?>[^\s|]*?(?=https?://|[\s|]|\Z))\s*\|"
)
#: Other bytes become a character that is neither a letter nor a space.
_ASCII: Final = bytes([*range(128), *b"\x1a" * 128])
#: The characters of the literals, as capitals too, in lower case; in random bytes every fourth is one. A text that is
#: reduced to them keeps each literal, and may gain some.
_LITERAL: Final = "".join({character for _, _, groups, _ in _PATTERNS for one in groups for character in "".join(one)})
_LOWERED: Final = bytes(range(256)).lower()
_OTHERS: Final = bytes(set(range(256)).difference((_LITERAL + _LITERAL.upper()).encode()))
MOST: Final = 20
_MOST_COMMENTS: Final = 200


def search_file(path: str, source: str, data: bytes) -> Iterator[Danger]:
    """Yield the dangers in a file, of one pattern at most ``MOST``, and a note on a file too large for a whole search.

    A shell skips NUL characters, and text in UTF-16 has one beside each letter, so the search leaves them out.
    """
    parts = [(0, data)]
    if is_cut := len(data) > 2 * limits.MIB:
        parts = [(0, data[: limits.MIB]), (data.count(b"\n", 0, -limits.MIB), data[-limits.MIB :])]
    for lines, part in parts:
        patterns = list(range(len(_PATTERNS)))
        try:
            text = part.decode()
        except UnicodeDecodeError:  # all patterns are ASCII, and text of one byte a character is searched fastest
            patterns = _likely(patterns, part.translate(_LOWERED, _OTHERS).decode())
            if not patterns and not path.lower().endswith(".md"):
                continue
            text = part.translate(_ASCII).decode()
        text = text.replace("\0", "") if "\0" in text else text
        for code, message, found in _matches(path, text, patterns):
            place = place_of_range(text, *found.span(), source)
            yield Danger(code, message, place._replace(line=(place.line or 1) + lines), found[0])
    if is_cut:
        message = f"the file has {len(data)} bytes, and only its first and last MiB are searched for dangers"
        yield Danger("FILE_UNSEARCHED", message, SourceLocation(source), "")


def _matches(path: str, text: str, patterns: list[int]) -> Iterator[tuple[str, str, re.Match[str]]]:
    """Yield the rule, the message and the match of each danger in the text of a file."""
    for number in _likely(patterns, text.lower()) if patterns else ():
        code, message, _, _ = _PATTERNS[number]
        for found in islice(_compiled(number).finditer(text), MOST):
            yield code, message, found
    if path.lower().endswith(".md") and ("<!--" in text or "]:" in text):
        comment, addressed = _comments()
        for found in islice(comment.finditer(text), _MOST_COMMENTS):
            if addressed.search(found[0]):
                yield "COMMENT_INSTRUCTION", "a comment speaks to an agent", found


def _likely(patterns: list[int], text: str) -> list[int]:
    """Return those of the patterns whose literals the text holds."""
    return [
        number
        for number in patterns
        if all(any(literal in text for literal in literals) for literals in _PATTERNS[number][2])
    ]


@cache
def _compiled(number: int) -> re.Pattern[str]:
    return re.compile(_PATTERNS[number][3], re.IGNORECASE)


@cache
def _comments() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(COMMENT, re.DOTALL | re.MULTILINE), re.compile(_ADDRESSED, re.IGNORECASE)
