from contextlib import nullcontext

import pytest

from skillwire.errors import FetchError, TrustError
from skillwire.wire.exchange import HttpRequest, HttpResponse, follow
from skillwire.wire.fetch import conditional_headers, expect_archive, expect_json, fetch, is_json

URL = "https://a.example/index.json"
SECRET = {"Authorization": "Bearer secret"}


def answer(status=200, *, body=b"", **headers):
    return HttpResponse(URL, status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def follow_redirect(request, status, location):
    exchange = fetch(request)
    next(exchange)
    return exchange.send(answer(status, location=location))


def code(request, *answers):
    with pytest.raises((FetchError, TrustError)) as caught:
        follow(fetch(request), answers)
    return caught.value.code


@pytest.mark.parametrize("status", [200, 300, 305, 400, 401, 404, 500, 503])
def test_any_other_status_is_the_callers(status):
    assert follow(fetch(HttpRequest(URL)), [answer(status, location="/elsewhere")]).status == status


@pytest.mark.spec("ASD-client-redirects")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [("/b", "https://a.example/b"), ("b?c#d", "https://a.example/b?c"), ("https://b.example", "https://b.example/")],
)
def test_a_redirect_is_followed(status, location, target):
    request = HttpRequest(URL, headers={"Accept": "application/json", "If-None-Match": '"x"'})
    followed = follow_redirect(request, status, location)
    assert (followed.url, followed.method, followed.headers) == (target, "GET", request.headers)


def test_the_answer_is_the_last_ones():
    final = answer(200, body=b"x")
    assert follow(fetch(HttpRequest(URL)), [answer(302, location="/1"), answer(302, location="/2"), final]) is final


def test_five_redirects_are_followed_and_a_sixth_is_not():
    hops = [answer(302, location=f"/{number}") for number in range(6)]
    assert follow(fetch(HttpRequest(URL)), [*hops[:5], answer()]).status == 200
    assert code(HttpRequest(URL), *hops) == "REDIRECT_LIMIT"


@pytest.mark.parametrize("locations", [[URL], ["/x", URL], ["/x", "/y", "/x"], ["#again"]])
def test_a_circle_is_noticed(locations):
    assert code(HttpRequest(URL), *(answer(302, location=location) for location in locations)) == "REDIRECT_LIMIT"


@pytest.mark.parametrize("location", ["http://a.example/", "http://b.example/", "http://127.0.0.1/"])
def test_https_never_leads_to_http(location):
    assert code(HttpRequest(URL), answer(302, location=location)) == "REDIRECT_REFUSED"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "https://u:p@b.example/", "//", "https://0x7f.1/", "a b"])
def test_an_unreadable_target_is_refused(location):
    assert code(HttpRequest(URL), answer(302, location=location)) == "REDIRECT_REFUSED"


@pytest.mark.parametrize("headers", [{}, {"location": ""}])
def test_a_redirect_to_nowhere(headers):
    assert code(HttpRequest(URL), answer(302, **headers)) == "REDIRECT_BROKEN"


@pytest.mark.parametrize("location", ["https://b.example/", "https://a.example:8443/", "https://www.a.example/"])
@pytest.mark.parametrize("secret", [SECRET, {"X-Api-Key": "secret"}, {"Cookie": "secret"}])
def test_another_origin_is_asked_without_secrets(secret, location):
    redirected = follow_redirect(HttpRequest(URL, headers={**secret, "Accept": "*/*"}), 307, location)
    assert (redirected.url, redirected.headers) == (location, {"Accept": "*/*"})


def test_a_secret_stays_away_when_the_redirects_lead_back():
    request = follow_redirect(HttpRequest(URL, headers=SECRET), 302, "https://b.example/")
    assert follow_redirect(request, 302, URL).headers == {}


@pytest.mark.parametrize("location", ["https://b.example/", "https://a.example:8443/"])
def test_a_body_never_crosses_an_origin(location):
    post = HttpRequest(URL, method="POST", headers=SECRET, body=b"hush")
    with pytest.raises(TrustError) as caught:
        follow(fetch(post), [answer(307, location=location)])
    assert caught.value.code == "REDIRECT_REFUSED"
    assert "hush" not in str(caught.value.diagnostics())


def test_a_credential_stays_within_its_origin():
    assert follow_redirect(HttpRequest(URL, headers=SECRET), 302, "/other").headers == SECRET


@pytest.mark.parametrize("status", [301, 302])
def test_a_post_does_not_silently_become_a_get(status):
    assert code(HttpRequest(URL, method="POST", body=b"x"), answer(status, location="/b")) == "REDIRECT_BROKEN"


def test_a_post_is_repeated_or_becomes_a_get_as_the_status_says():
    post = HttpRequest(URL, method="POST", headers={"Content-Type": "text/plain", "Accept": "*/*"}, body=b"x")
    repeated = follow_redirect(post, 308, "/b")
    assert (repeated.method, repeated.body, repeated.headers) == ("POST", b"x", post.headers)
    see_other = follow_redirect(post, 303, "/b")
    assert (see_other.method, see_other.body, see_other.headers) == ("GET", None, {"Accept": "*/*"})


def test_the_result_of_a_post_may_be_at_its_own_url():
    assert follow_redirect(HttpRequest(URL, method="POST", body=b"x"), 303, URL).method == "GET"


@pytest.mark.parametrize("status", [304, 206])
def test_an_answer_that_was_not_asked_for(status):
    assert code(HttpRequest(URL), answer(status)) == "ANSWER_UNASKED"


@pytest.mark.parametrize(
    ("status", "headers"),
    [(304, {"If-None-Match": '"x"'}), (304, {"If-Modified-Since": "now"}), (206, {"Range": "bytes=0-1"})],
)
def test_an_answer_that_was_asked_for(status, headers):
    assert follow(fetch(HttpRequest(URL, headers=headers)), [answer(status)]).status == status


def test_conditions_of_a_kept_answer():
    kept = {"etag": '"x"', "last-modified": "Tue, 01 Jan 2030 00:00:00 GMT", "content-type": "text/plain"}
    assert conditional_headers(kept) == {"If-None-Match": '"x"', "If-Modified-Since": "Tue, 01 Jan 2030 00:00:00 GMT"}
    assert conditional_headers({"etag": ""}) == {}


@pytest.mark.spec("ASD-client-index")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/feed+json",
        "application/octet-stream",
        "text/plain; charset=utf-8",
        "",
    ],
)
def test_what_may_be_json(content_type):
    expect_json(answer(content_type=content_type))
    expect_json(answer())


@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "application/xhtml+xml"])
def test_a_web_page_in_place_of_json(content_type):
    with pytest.raises(FetchError, match="a web page came where JSON was expected") as caught:
        expect_json(answer(content_type=content_type))
    assert "browser" in caught.value.diagnostics().fix


def test_another_type_in_place_of_json():
    with pytest.raises(FetchError, match="image/png came where JSON was expected"):
        expect_json(answer(content_type="image/png"))


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/gzip", b"\x1f\x8b..."),
        ("application/x-gzip", b"\x1f\x8b..."),
        ("application/zip", b"PK\x03\x04"),
        ("application/octet-stream", b"anything"),
    ],
)
def test_what_may_be_an_archive(content_type, body):
    expect_archive(answer(content_type=content_type, body=body))


@pytest.mark.parametrize(
    ("content_type", "path", "body", "error"),
    [
        ("application/zip", "/a.tar.gz", b"PK\x03\x04", None),
        ("application/gzip", "/a.zip", b"\x1f\x8b", None),
        ("application/octet-stream", "/a.zip?x", b"PK\x03\x04", None),
        ("", "/a", b"PK\x03\x04", None),
        ("application/octet-stream", "/a.zip", b"\x1f\x8b", "ARCHIVE_FORMAT_MISMATCH"),
        ("", "/A.TAR.GZ", b"PK\x03\x04", "ARCHIVE_FORMAT_MISMATCH"),
        ("application/zip", "/a.zip", b"\x1f\x8b", "CONTENT_TYPE"),
    ],
)
def test_the_type_states_the_format_and_the_ending_only_where_it_does_not(content_type, path, body, error):
    response = answer(content_type=content_type, body=body)._replace(url=f"https://a.example{path}")
    with pytest.raises((FetchError, TrustError)) if error else nullcontext() as caught:
        expect_archive(response)
    assert error == (caught.value.code if caught else None)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/gzip", b"PK\x03\x04"), ("application/zip", b"\x1f\x8b..."), ("text/html", b"\x1f\x8b...")],
)
def test_a_type_that_contradicts_the_bytes(content_type, body):
    with pytest.raises(FetchError) as caught:
        expect_archive(answer(content_type=content_type, body=body))
    assert caught.value.code == "CONTENT_TYPE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, True) for text in ("application/json", " Application/JSON ; a=b", "text/json", "a/b.c+json")),
        *((text, False) for text in ("", "json", "+json", "a/b/c+json", "a b/c+json", "a/b\r\n+json", "\u0430/b+json")),
        *((text, False) for text in ("text/html", "application/x-www-form-urlencoded", "application/json5")),
    ],
)
def test_what_says_that_it_is_json(text, expected):
    assert is_json(text) is expected
