"""Whatever a caller sends, a call goes where the skill's folder says, and no deeper or higher."""

from urllib.parse import unquote, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import ValidationError
from skillwire.folder.executors import Upstream, check_upstream_url, fill
from skillwire.model.url import parse_url

TEMPLATES = st.sampled_from(
    [
        "https://api.example.com/v1/{a}/x/{b}",
        "https://api.example.com:8443/{a}{b}?q={a}&r={b}&s=1",
        "https://api.example.com/v1/pre-{a}.json?{b}=x",
        "https://api.example.com/{a}/../../{b}".replace("/../..", ""),
    ]
)
_NASTY = st.lists(
    st.sampled_from([".", "..", "/", "\\", "%", "%2e", "%2f", "%5c", "2e", "25", "@", "?", "#", ":", "&", ";", "a"])
).map("".join)
VALUES = st.one_of(_NASTY, st.text(max_size=40), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())


@given(TEMPLATES, VALUES, VALUES, st.sampled_from(["GET", "POST"]))
def test_placeholders_cannot_change_origin_or_depth(template, a, b, method):
    upstream = Upstream(check_upstream_url(template), method)
    try:
        url = fill(upstream, {"a": a, "b": b}).url
    except ValidationError:
        return
    read, plain = parse_url(url), parse_url(template.replace("{a}", "0").replace("{b}", "0"))
    assert read.origin == plain.origin
    assert urlsplit(url).netloc == urlsplit(template).netloc
    assert str(read).partition("?")[0] == url.partition("?")[0]  # nothing was to be straightened
    assert "#" not in url
    before, after = plain.path.split("/"), read.path.split("/")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert "0" in old or old == new
        decoded = new
        for _ in range(3):
            decoded = unquote(decoded, errors="replace")
            assert not {".", ".."} & set(decoded.replace("\\", "/").split("/"))
        assert new or not old
    given_pairs = [pair for pair in template.partition("?")[2].split("&") if pair]
    assert (read.query or "").count("&") <= max(len(given_pairs) - 1, 0)


@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_a_query_holds_the_inputs_and_nothing_more(inputs):
    upstream = Upstream("https://api.example.com/find", "GET")
    try:
        url = fill(upstream, inputs).url
    except ValidationError:
        return
    pairs = (parse_url(url).query or "").split("&") if "?" in url else []
    assert [unquote(pair.partition("=")[0]) for pair in pairs] == [
        name for name, value in inputs.items() if value is not None
    ]
