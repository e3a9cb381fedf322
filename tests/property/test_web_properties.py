"""What pages promise whatever a stranger says."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from skillwire.model.catalog import SearchQuery
from skillwire.model.url import parse_url
from skillwire.registry.search import facet_value
from skillwire.web.address import query_url, read_query, site_address
from skillwire.web.markdown import SkillLinks, render_markdown

LINKS = SkillLinks("skills/demo", ".well-known/agent-skills/demo", ["SKILL.md", "a/b.md", "p.png"], "md-")
PIECES = st.sampled_from(
    [
        *("<script>", "</pre>", "<img src=x onerror=y>", "[a](", ")", "![", "]", "javascript:", "https://e.example"),
        *("a/b.md", "p.png", "//e", "`", "```\n", "*", "\n", "\n\n", "# ", "> ", "- ", "|", "|-|\n", "\t"),
        *('"', "'", "&", "&#106;", "<", ">", "\\", "\u202e", "\x00"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join)


class Tags(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.seen = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


@given(TEXTS)
def test_no_text_makes_an_element_that_acts(text):
    for tag, attributes in Tags(render_markdown(text, LINKS).html).seen:
        assert tag not in {
            "script",
            "style",
            "iframe",
            "object",
            "embed",
            "form",
            "input",
            "svg",
            "math",
            "base",
            "meta",
        }
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert re.match(r"https?:|mailto:|#|demo/files/", attributes.get("href") or "#", re.IGNORECASE)
        assert (
            attributes.get("src", "../.well-known/agent-skills/demo/p.png") == "../.well-known/agent-skills/demo/p.png"
        )


@given(st.text(max_size=60), st.sampled_from(["http", "https"]))
def test_every_host_gives_an_address_that_is_one_and_has_no_path(host, scheme):
    url = parse_url(site_address("", scheme, host, "", ("127.0.0.1", 8000)))
    assert (url.path, url.query) == ("/", None)


@given(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.dictionaries(
        st.sampled_from(["kind", "license", "tag"]),
        st.frozensets(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=4),
    ),
)
def test_the_address_of_a_list_means_the_search_that_it_was_made_of(text, facets):
    query = read_query(query_url(SearchQuery(text, facets)).removeprefix("./").removeprefix("?").encode())
    assert query.text == text.strip()
    written = {facet: frozenset(facet_value(facet, one) for one in values) for facet, values in facets.items()}
    assert query.facets == written


@given(st.binary(max_size=200))
def test_any_query_string_is_a_search(raw):
    assert read_query(raw).limit > 0
