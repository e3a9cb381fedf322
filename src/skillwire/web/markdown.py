"""Untrusted Markdown as HTML that is safe to show within a page of ours, and the targets of its links and pictures.

Three things make it safe, and each would do alone for scripts: the parser knows no raw HTML (it is shown as text),
every link and picture is rewritten or dropped, and the result passes a sanitiser with a short list of tags.

Relative paths of the skill's own files become links to their pages; anchors become anchors of the text; addresses on
the web stay, and are marked. All other links are dropped: another path of this server does not belong to the skill, and
other schemes act.

Markdown has constructions whose text no page shows: unused link definitions, table cells beyond the header, titles. An
agent reads them, so the lines with words that the result does not have are returned beside it.

Headings continue the levels of the page without a gap, and their anchors have a prefix of their own, so that no text
can replace an element of the page.

Trust: the text and each address are hostile. The parser bounds nesting. A few constructions cost quadratic time within
a paragraph, so a paragraph longer than :data:`~skillwire.limits.PAGE_PARAGRAPH`, and a text longer than
:data:`~skillwire.limits.PAGE_MARKDOWN`, are shown as plain text. Callers run it off the event loop.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from html import escape, unescape
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote

from skillwire import limits
from skillwire.protocols.agent_skills.messages import media_type
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_ON_THE_WEB: Final = ("https://", "http://", "mailto:")


class Target(NamedTuple):
    """The URL of a link, relative to the skill's page unless ``is_external``."""

    url: str
    is_external: bool = False


class SkillLinks:
    """The links of one skill's text, as seen from its ``page``; ``raw`` is the folder of its files' bytes.

    Both are paths of the site; ``anchor`` precedes the text's anchors, ``end`` is the ending of pages.
    """

    def __init__(self, page: str, raw: str, paths: Collection[str], anchor: str, end: str = "") -> None:
        self._page = page.rpartition("/")[2]
        self._end = end
        self._raw = "../" * page.count("/") + raw
        self._paths = frozenset(paths)
        self._folders = {path[:index] for path in paths for index, letter in enumerate(path) if letter == "/"}
        self._anchor = anchor

    def target(self, href: str) -> Target | None:
        """Return the target of a link to ``href``; None to drop the link."""
        if href.startswith("#"):
            return Target(f"#{self._anchor}{quote(unquote(href[1:]).lower())}") if len(href) > 1 else None
        if is_web_link(href):
            return Target(href, is_external=True)
        path = self._own(href)
        if path in self._paths:
            return Target(f"{self._page}/files/{quote(path)}{self._end}")
        return Target(f"{self._page}/files{self._end}") if path in self._folders else None

    def picture(self, source: str) -> str | None:
        """Return the URL of a picture of the skill; None when ``source`` is none."""
        path = self._own(source)
        if path not in self._paths or not media_type(path).startswith("image/"):
            return None
        return f"{self._raw}/{quote(path)}"

    def _own(self, href: str) -> str | None:
        """Return the path within the skill that ``href`` names; None for another."""
        path = unquote(href.partition("#")[0].partition("?")[0]).rstrip("/")
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if href.startswith("/") or ".." in parts:
            return None
        return "/".join(parts)


def is_web_link(text: str) -> bool:
    """Whether an untrusted text is an address on the web."""
    return text.lower().startswith(_ON_THE_WEB)


#: Before each anchor of a skill's text.
ANCHOR: Final = "md-"
_FIRST_LEVEL: Final = 3  # below the page's h1 and the section's h2
_LAST_LEVEL: Final = 6
_NESTING: Final = 20
_NOT_SLUG: Final = re.compile(r"[^\w-]+")
_ALIGNED: Final = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
_TAGS: Final = {
    "a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES: Final = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "h3": {"id"}, "h4": {"id"}, "h5": {"id"}, "h6": {"id"},
}  # fmt: skip
_CLASSES: Final = {
    "a": {"external"},
    "code": {"short"},
    "div": {"scroll"},
    "span": {"dead"},
    "td": set(_ALIGNED.values()),
    "th": set(_ALIGNED.values()),
}
#: So much of a command is never broken at the end of a line: it fits on a phone.
_SHORT: Final = 24
#: What scrolls is reached by the keyboard; pictures are fetched when they come into view.
_SET: Final = {"pre": {"tabindex": "0"}, "div": {"tabindex": "0"}, "img": {"loading": "lazy"}}


class Heading(NamedTuple):
    """A heading of the first two levels: its anchor and its text."""

    anchor: str
    text: str


class Rendered(NamedTuple):
    """A text as HTML, its headings, and lines of its source with ``unseen`` text.

    ``is_plain`` when it was too long to be read as Markdown.
    """

    html: str
    headings: tuple[Heading, ...] = ()
    is_plain: bool = False
    unseen: tuple[str, ...] = ()


def render_markdown(text: str, links: SkillLinks) -> Rendered:
    """Return ``text`` as HTML, with its links and pictures rewritten by ``links``."""
    import nh3  # noqa: PLC0415  # with the first page: many servers show none

    text = neutralise(text)
    if len(text) > limits.PAGE_MARKDOWN:
        return Rendered(f'<pre tabindex="0">{escape(text)}</pre>', is_plain=True)
    parser = _parser()
    tokens = parser.parse(text)
    _neutralise_references(tokens)
    headings = tuple(_number_headings(tokens))
    unseen = _find_unseen(text, _shown_words(text, tokens, links))
    for token in tokens:
        if token.children:
            token.children = list(_rewrite(token.children, links))
        style = token.attrs.pop("style", None)
        if style in _ALIGNED:
            token.attrs["class"] = _ALIGNED[style]
    html = nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        set_tag_attribute_values=_SET,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener nofollow",
    )
    return Rendered(html, headings, unseen=unseen)


def _neutralise_references(tokens: Sequence[Token]) -> None:
    """Neutralise the hidden characters that character references such as ``&#x202e;`` spell."""
    for token in tokens:
        token.content = neutralise(token.content)
        if "title" in token.attrs:
            token.attrs["title"] = neutralise(str(token.attrs["title"]))
        _neutralise_references(token.children or ())


#: Digits and marks are left out: lists, tables and emphasis consist of them.
_WORD: Final = re.compile(r"[^\W\d_]+")
#: Short labels of references, which hide nothing where a link has them, and the usual languages of code blocks.
_LABEL: Final = re.compile(r"\]\[([\w.-]{1,20})\]|^ {0,3}\[([\w.-]{1,20})\]:", re.MULTILINE)
_USED: Final = re.compile(r"(?<!\[\])(?<!\[ \])\[([\w.-]{1,20})\](?!:)")
_LANGUAGE: Final = re.compile(
    r"bash|bat|c|c#|c\+\+|cmake|cmd|console|cpp|cs|csharp|css|csv|dart|diff|docker|dockerfile|elixir|go|graphql"
    r"|haskell|hcl|html|http|ini|java|javascript|jinja|js|json|json5|jsonc|jsonl|jsx|kotlin|latex|lua|makefile|markdown"
    r"|matlab|md|mermaid|nginx|perl|php|plaintext|powershell|properties|proto|ps1|py|python|r|rb|regex|ruby|rust|scala"
    r"|scss|sh|shell|sql|svelte|svg|swift|terraform|tex|text|toml|ts|tsx|txt|typescript|vue|xml|yaml|yml|zsh",
    re.IGNORECASE,
)
_MOST_LINES: Final = 50


def _words(text: str) -> list[str]:
    return _WORD.findall(unescape(unquote(text)))


def _shown_words(text: str, tokens: Sequence[Token], links: SkillLinks) -> Counter[str]:
    """Return how often each word will be shown, targets and titles of links that are kept included."""
    labels = [(one[1] or one[2], one[1] is None) for one in _LABEL.finditer(text)]
    defined = {label.lower() for label, is_definition in labels if is_definition}
    used = defined & {one[1].lower() for one in _USED.finditer(text)}
    shown = Counter(word for label, _ in labels if label.lower() in used for word in _words(label))
    targets: Counter[str] = Counter()
    for token in tokens:
        if _LANGUAGE.fullmatch(token.info.strip()):
            shown.update(_words(token.info))
        for index, inner in enumerate(children := token.children or [token]):
            shown.update(_words(inner.content if inner.type != "inline" else ""))
            href, source = str(inner.attrs.get("href", "")), str(inner.attrs.get("src", ""))
            if (links.target(href) and _has_text(children, index)) if href else links.picture(source):
                target = f"{href or source} {inner.attrs.get('title', '')}"
                targets[target] += 1
                if targets[target] <= max(text.count(href or source), 1):  # a definition is written once and used often
                    shown.update(_words(target))
    return shown


def _has_text(tokens: Sequence[Token], start: int) -> bool:
    """Whether the link that begins at ``start`` shows anything."""
    inside = takewhile(lambda token: token.type != "link_close", map(tokens.__getitem__, range(start, len(tokens))))
    return any(token.type == "image" or token.content.strip() for token in inside)


def _find_unseen(text: str, shown: Counter[str]) -> tuple[str, ...]:
    """Return the lines of ``text`` that explain best which of its words are not ``shown``."""
    lines = text.split("\n")
    words = [_words(line) for line in lines]
    missing = Counter(word for line in words for word in line)
    missing.subtract(shown)

    def share(number: int) -> float:
        return sum(missing[word] > 0 for word in words[number]) / len(words[number])

    unseen = []
    for number in sorted((number for number, line in enumerate(words) if line), key=share, reverse=True):
        if any(missing[word] > 0 for word in words[number]):
            unseen.append(number)
            missing.subtract(words[number])
    return tuple(lines[number] for number in sorted(unseen)[:_MOST_LINES])


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # with the first page: many servers show none

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable(["table", "strikethrough"])
    parser.core.ruler.at("inline", _read_paragraphs)
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _read_paragraphs(state: StateCore) -> None:
    """Parse the content of each block; content beyond the bound becomes plain text."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        if len(token.content) > limits.PAGE_PARAGRAPH:
            token.children.append(_text(token, token.content))
        else:
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _text(token: Token, content: str) -> Token:
    """Return a token of text instead of ``token``."""
    return type(token)("text", "", 0, content=content)


def _number_headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Give each heading its level on the page and its anchor; yield those of the first two levels."""
    above: list[int] = []
    seen: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.type == "heading_close":
            token.tag = tokens[index - 2].tag
        if token.type != "heading_open":
            continue
        written = int(token.tag[1:])
        while above and above[-1] >= written:
            above.pop()
        above.append(written)
        token.tag = f"h{min(_FIRST_LEVEL + len(above) - 1, _LAST_LEVEL)}"
        text = "".join(
            " " if inner.type in {"softbreak", "hardbreak"} else inner.content
            for inner in tokens[index + 1].children or ()
            if inner.type in {"text", "code_inline", "softbreak", "hardbreak", "image"}
        )
        slug = ANCHOR + (_NOT_SLUG.sub("", text.lower().replace(" ", "-"))[:80] or "section")
        number = seen[slug] = seen.get(slug, 0) + 1
        anchor = slug if number == 1 else f"{slug}-{number}"
        token.attrs["id"] = anchor
        if len(above) <= 2:  # noqa: PLR2004  # the first two
            yield Heading(anchor, text)


def _rewrite(tokens: Sequence[Token], links: SkillLinks) -> Iterator[Token]:
    """Yield inline tokens with their links and images made ours, and short code marked."""
    open_tags: list[str] = []
    for token in tokens:
        if token.type == "image":
            source = links.picture(str(token.attrs.get("src", "")))
            if source is not None:
                token.attrs["src"] = source
                yield token
            else:
                yield _text(token, f"[{token.content or 'picture'}]")
        elif token.type == "link_open":
            href = str(token.attrs.get("href", ""))
            target = links.target(href)
            if target is None:
                token.tag, token.attrs = "span", {"class": "dead"}
            else:
                token.attrs["href"] = target.url
                if target.is_external:
                    token.attrs["class"] = "external"
            open_tags.append(token.tag)
            yield token
        else:
            if token.type == "link_close":
                token.tag = open_tags.pop()
            elif token.type == "code_inline" and len(token.content) <= _SHORT:
                token.attrs["class"] = "short"
            yield token
