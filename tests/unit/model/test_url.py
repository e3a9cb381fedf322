# ruff: noqa: RUF001 - characters that look like others are the subject
import pytest

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.url import Url, is_ipv4, parse_url, resolve_url


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A", "https://example.com/A"),
        ("http://example.com:80", "http://example.com/"),
        ("http://example.com:443", "http://example.com:443/"),
        ("https://example.com:8443/a?b=c#d", "https://example.com:8443/a?b=c"),
        ("https://example.com?q", "https://example.com/?q"),
        ("https://example.com/?", "https://example.com/?"),
        ("https://example.com#only", "https://example.com/"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/%2e%2E/a%2Fb", "https://example.com/%2e%2E/a%2Fb"),
        ("https://127.0.0.1:8000/x", "https://127.0.0.1:8000/x"),
        ("https://[0:0::0001]:8000/x", "https://[::1]:8000/x"),
        ("https://[2001:DB8::7f00:1]/", "https://[2001:db8::7f00:1]/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://my_service/", "https://my_service/"),
        ("https://1password.com/", "https://1password.com/"),
        ("https://1.2.3.4.example/", "https://1.2.3.4.example/"),
    ],
)
def test_a_url_has_one_written_form(text, written):
    assert str(parse_url(text)) == written
    assert parse_url(written) == parse_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "https:example.com",
        "https:/example.com", "https:///path", "https://", "https://:443/", "https://?q", " https://example.com/",
        "https://example.com/\n", "https://exam ple.com/", "https://example.com/a b",
        "https://example.com\\@evil.example/", "https://example.com/a\\b", "https://user@example.com/",
        "https://user:secret@example.com/", "https://@example.com/", "https://example.com:/",
        "https://example.com:0/", "https://example.com:0443/", "https://example.com:65536/",
        "https://example.com:99999999999/", "https://example.com:+443/", "https://example.com:４４３/",
        "https://example.com:443:443/", "https://exa%6dple.com/", "https://example..com/", "https://.example.com/",
        "https://example.com./", "https://-a.example/", "https://a-.example/", f"https://{'a' * 64}.example/",
        f"https://{'a.' * 127}aa/", "https://example.com/é", "https://example.com/a|b", "https://example.com/%zz",
        "https://example.com/%2", "https://example.com/?q=[1]", "https://[::1", "https://::1/", "https://[::1]x/",
        "https://[::1%25eth0]/", "https://[2001:db8::1%eth0]/", "https://[fe80::1%]/", "https://[fe80::1%25]/",
        "https://[fe80::1%2525]/", "https://[fe80::1%25255]/", "https://[fe80::1%eth0%eth1]/",
        "https://[fe80::1%e th0]/", "https://[fe80::1%eth0/x]/", "https://[fe80::1%25eth%2f]/",
        "https://[127.0.0.1]/", "https://[]/", "https://[v1.a]/",
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(ValidationError) as caught:
        parse_url(text)
    assert caught.value.code == "URL"


@pytest.mark.parametrize(
    "host",
    [
        "0", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1", "127.0.0.01",
        "127.0.0.0x1", "127.0.0.0x", "256.0.0.1", "1.2.3.4.5", "example.1", "①②⑦.0.0.1", "１２７.0.0.1", "127。0。0。1",
        "127．0．0．1", "127｡0｡0｡1", "١٢٧.0.0.1", "127.0.0.1\u200b", "127\u00ad.0.0.1",
    ],
)  # fmt: skip
def test_no_unusual_spelling_of_an_address_gets_through(host):
    with pytest.raises(ValidationError):
        parse_url(f"https://{host}/")


@pytest.mark.parametrize(
    "host",
    [
        "ⓛocalhost.example", "ｅxample.com", "exam\u00adple.com", "exam\u200dple.com", "faß.example", "βόλος.example",
        "example。com", "ﬁ.example", "\ud800.example", "☃\u0338\u2060.example",
    ],
)  # fmt: skip
def test_a_host_that_changes_under_normalisation_is_refused(host):
    with pytest.raises(ValidationError):
        parse_url(f"https://{host}/")


def test_an_over_long_url_is_refused_before_it_is_read():
    with pytest.raises(ValidationError, match="longer than 2048"):
        parse_url("https://example.com/" + "a" * limits.URL_LENGTH)


def test_the_message_does_not_show_a_password():
    with pytest.raises(ValidationError) as caught:
        parse_url("https://user:hunter2@example.com/")
    assert "hunter2" not in str(caught.value.diagnostics())


def test_parts_and_origin():
    url = parse_url("http://[::1]:8000/a/b?c=d")
    assert url == Url("http", "::1", 8000, "/a/b", "c=d")
    assert url.origin == "http://[::1]:8000"
    assert url.authority == "[::1]:8000"
    assert url.target == "/a/b?c=d"
    assert parse_url("https://example.com:443/x").origin == "https://example.com"


# RFC 3986 §5.4, base http://a/b/c/d;p?q, without the fragment, which we drop.
_RFC_EXAMPLES = {
    "g": "http://a/b/c/g",
    "./g": "http://a/b/c/g",
    "g/": "http://a/b/c/g/",
    "/g": "http://a/g",
    "//g": "http://g/",
    "?y": "http://a/b/c/d;p?y",
    "g?y": "http://a/b/c/g?y",
    "#s": "http://a/b/c/d;p?q",
    "g#s": "http://a/b/c/g",
    "g?y#s": "http://a/b/c/g?y",
    ";x": "http://a/b/c/;x",
    "g;x": "http://a/b/c/g;x",
    "g;x?y#s": "http://a/b/c/g;x?y",
    "": "http://a/b/c/d;p?q",
    ".": "http://a/b/c/",
    "./": "http://a/b/c/",
    "..": "http://a/b/",
    "../": "http://a/b/",
    "../g": "http://a/b/g",
    "../..": "http://a/",
    "../../": "http://a/",
    "../../g": "http://a/g",
    "../../../g": "http://a/g",
    "../../../../g": "http://a/g",
    "/./g": "http://a/g",
    "/../g": "http://a/g",
    "g.": "http://a/b/c/g.",
    ".g": "http://a/b/c/.g",
    "g..": "http://a/b/c/g..",
    "..g": "http://a/b/c/..g",
    "./../g": "http://a/b/g",
    "./g/.": "http://a/b/c/g/",
    "g/./h": "http://a/b/c/g/h",
    "g/../h": "http://a/b/c/h",
    "g;x=1/./y": "http://a/b/c/g;x=1/y",
    "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x",
    "g?y/../x": "http://a/b/c/g?y/../x",
    "g#s/./x": "http://a/b/c/g",
    "https://other.example:1/x": "https://other.example:1/x",
}


@pytest.mark.spec("ASD-client-url")
@pytest.mark.parametrize(("reference", "expected"), _RFC_EXAMPLES.items())
def test_references_resolve_as_the_rfc_says(reference, expected):
    assert str(resolve_url(parse_url("http://a/b/c/d;p?q"), reference)) == expected


@pytest.mark.parametrize("reference", ["g:h", "http:g", "\\\\evil.example", "a b", "//", "///x", "a\tb", "%", "é"])
def test_a_reference_obeys_the_same_rules(reference):
    with pytest.raises(ValidationError):
        resolve_url(parse_url("https://example.com/a/"), reference)


def test_what_resolving_makes_is_bounded_too():
    base = parse_url("https://example.com/" + "a/" * 900)
    with pytest.raises(ValidationError, match="longer than 2048"):
        resolve_url(base, "b/" * 900)


@pytest.mark.parametrize(("text", "expected"), [("1.2.3.4", True), ("1.2.3", False), ("01.2.3.4", False), ("a", False)])
def test_the_usual_form_of_an_ipv4_address(text, expected):
    assert is_ipv4(text) is expected


@pytest.mark.parametrize("written", ["http://[fe80::1%eth0]:8000/a", "http://[FE80:0::1%25eth0]:8000/a"])
def test_an_interface_stands_behind_a_link_local_address_and_is_told_to_nobody(written):
    url = parse_url(written)
    assert str(url) == "http://[fe80::1%eth0]:8000/a" == str(parse_url(str(url)))
    assert (url.host, url.name, url.host_header) == ("fe80::1%eth0", "fe80::1", "[fe80::1]:8000")


@pytest.mark.parametrize("reference", ["/b", "http://[fe80::1]:8000/b", "//[fe80::1]:8000/b"])
def test_what_a_link_local_host_says_of_itself_is_reached_by_the_same_interface(reference):
    base = parse_url("http://[fe80::1%eth0]:8000/a")
    assert str(resolve_url(base, reference)) == "http://[fe80::1%eth0]:8000/b"
    assert resolve_url(base, "http://[fe80::2]:8000/b").host == "fe80::2"
