"""An API behind a skill: what its folder may say, and the URL that inputs make of it."""

import pytest

from skillwire.errors import ValidationError
from skillwire.folder.executors import (
    Upstream,
    check_header_name,
    check_header_value,
    check_result,
    check_upstream_url,
    fill,
    fill_title,
    point,
    upstream_origin,
)
from skillwire.folder.manifest import load_action, parse_manifest, read_manifest
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.skill import HealthCheck

HEAD = """\
kind = "action"
[permissions]
secrets = ["CRM_API_KEY"]
[inputs.id]
type = "integer"
required = true
[inputs.lang]
[inputs.tags]
type = "array"
[executor]
kind = "http"
"""


def flaws(executor):
    found = read_manifest((HEAD + executor).encode())[1]
    return [(flaw.message, flaw.place.line if flaw.place else None) for flaw in found]


def test_all_that_a_folder_can_say():
    text = (
        'url = "https://crm.example.com:8443/v1/{id}?lang={lang}"\nmethod = "PUT"\nbody = "form"\nresult = "/data/0"\n'
        'headers = { Authorization = "Bearer ${CRM_API_KEY}", "X-Version" = "2" }\n'
    )
    manifest = parse_manifest((HEAD + text).encode())
    assert not manifest.unknown
    action = load_action(manifest)
    assert action.executor == "http"
    assert action.permissions.network == ("https://crm.example.com:8443",)
    assert "kind" not in action.settings


def test_the_origin_stands_beside_the_network_that_is_named():
    text = (HEAD + 'url = "https://a.example.com/x"').replace(
        "[permissions]", '[permissions]\nnetwork = ["https://b.example.com", "https://a.example.com"]'
    )
    assert load_action(parse_manifest(text.encode())).permissions.network == (
        "https://a.example.com",
        "https://b.example.com",
    )


def test_a_field_that_nobody_reads_is_named():
    manifest = parse_manifest((HEAD + 'url = "https://a.example.com/"\nforward_headers = ["cookie"]').encode())
    assert tuple(manifest.unknown) == (("executor", "forward_headers"),)


@pytest.mark.parametrize(
    ("executor", "message", "line"),
    [
        ('method = "POST"', "an executor of kind http has a url", 11),
        ('url = "http://a.example.com/"', "url must be https", 12),
        (
            'url = "https://{id}.example.com/"',
            "url has a placeholder in its host; placeholders are allowed in path and query",
            12,
        ),
        ('url = "https://a.example.com:{id}/"', "'https://a.example.com:0/' has no host, or a port that is not", 12),
        ('url = "https://a.example.com/{id"', "url has a brace that belongs to no placeholder such as", 12),
        ('url = "https://a.example.com/a/../b"', "url has a fragment, or dots that lead elsewhere", 12),
        ('url = "https://a.example.com/#{id}"', "url has a fragment, or dots that lead elsewhere", 12),
        ('url = "https://u:p@a.example.com/"', "the URL carries a user name or a password", 12),
        ('url = "https://a.example.com/{no}"', "{no} in url is no input that is a text, a number or a boolean", 12),
        ('url = "https://a.example.com/{tags}"', "{tags} in url is no input that is a text, a number or", 12),
        ('url = "https://a.example.com/{lang}"', "{lang} is in the path of url; make the input required", 12),
        ('url = "https://a.example.com/"\nmethod = "TRACE"', "method is one of GET, POST, PUT, PATCH, DELETE", 13),
        ('url = "https://a.example.com/"\nbody = "xml"', "body is one of json, form", 13),
        ('url = "https://a.example.com/"\nresult = "data"', "result is a JSON Pointer such as /data/items", 13),
        (
            'url = "https://a.example.com/"\n[executor.headers]\nHost = "b"',
            "the header field 'Host' is not one that",
            14,
        ),
        ('url = "https://a.example.com/"\n[executor.headers]\nX-A = "${OTHER}"', "OTHER is not among the secrets", 14),
        (
            'url = "https://a.example.com/"\n[executor.headers]\nX-A = "${lower}"',
            "a header field is printable ASCII",
            14,
        ),
        ('url = "https://a.example.com/"\n[executor.headers]\nX-A = 1', "X-A is text", 14),
    ],
)
def test_what_a_folder_must_not_say(executor, message, line):
    [(told, at)] = flaws(executor)
    assert told.startswith(message)
    assert at == line


DESCRIBING = """
    Accept Authorization User-Agent X-API-Key x-auth-token Private-Token Notion-Version anthropic-version
    OpenAI-Organization Ocp-Apim-Subscription-Key apikey X-Request-Id
"""
FRAMING = """
    Host Content-Length Content-Type Connection Transfer-Encoding TE Trailer Upgrade Expect Cookie Set-Cookie
    Proxy-Authorization Proxy-Token Sec-WebSocket-Key X-Forwarded-For X-Forwarded-Host Forwarded X-Real-IP
    X-HTTP-Method-Override X-Original-URL X-Rewrite-URL X-Accel-Redirect Range If-Match Via Origin Referer
    Keep-Alive X_Under :authority X-\u00e9
"""


@pytest.mark.parametrize("name", DESCRIBING.split())
def test_header_fields_that_describe_may_be_set(name):
    assert check_header_name(name) == name


@pytest.mark.parametrize("name", FRAMING.split())
def test_header_fields_that_frame_or_route_may_not(name):
    with pytest.raises(ValidationError, match="not one that may be set"):
        check_header_name(name)


@pytest.mark.parametrize("value", ["", " a", "a ", "a\r\nb", "a\0", "\u00e9", "${", "${A", "${a}", "x" * 2000])
def test_values_that_cannot_be_sent(value):
    with pytest.raises(ValidationError):
        check_header_value(value)


@pytest.mark.parametrize("pointer", ["", "a", "/~2", "/a~"])
def test_what_is_no_pointer(pointer):
    with pytest.raises(ValidationError):
        check_result(pointer)


def test_a_pointer_leads_to_its_value():
    document = {"a/b": [{"~": 1}], "": {"": 2}}
    assert point(document, check_result("/a~1b/0/~0")) == 1
    assert point(document, check_result("//")) == 2
    for lost in ("/x", "/a~1b/1", "/a~1b/-1", "/a~1b/x", "/a~1b/0/~0/z"):
        with pytest.raises(LookupError):
            point(document, lost)


URL = "https://api.example.com/v1/orders/{id}/lines"


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("?x=1&y#z", "%3Fx%3D1%26y%23z"),
        ("\u00fc", "%C3%BC"),
        ("%2e%2e", None),
        ("..", None),
        ("..;", None),
        (".;x=1", None),
        ("%2e%2e%3Bx", None),
        ("a;b=1", "a%3Bb%3D1"),
        (".", None),
        ("", None),
        ("../..", None),
        ("a/../b", None),
        ("..\\b", None),
        ("a//b", None),
        ("%252e%252e%252fadmin", None),
        ("a\nb", None),
        ("a\0", None),
        (7, "7"),
        (2.5, "2.5"),
        (True, "true"),
        ([1], None),
        ({}, None),
        (None, None),
        ("\ud800", None),
        ("x" * 3000, None),
        ("...", "..."),
        ("@evil.example", "%40evil.example"),
    ],
)
def test_what_fills_a_path_stays_one_segment(value, segment):
    upstream = Upstream(check_upstream_url(URL))
    if segment is None:
        with pytest.raises(ValidationError) as caught:
            fill(upstream, {"id": value})
        assert caught.value.code == "VALIDATION_ERROR"
    else:
        assert fill(upstream, {"id": value, "n": 1}) == (f"https://api.example.com/v1/orders/{segment}/lines", {"n": 1})


def test_two_halves_do_not_make_a_dot_segment():
    upstream = Upstream("https://api.example.com/v1/{a}{b}/x")
    with pytest.raises(ValidationError):
        fill(upstream, {"a": ".", "b": "."})
    with pytest.raises(ValidationError):
        fill(Upstream("https://api.example.com/v1/{a}2e/x"), {"a": "%2e%"})


def test_what_stands_in_the_query():
    upstream = Upstream("https://api.example.com/find?lang={lang}&unit=c&n={n}", method="GET")
    inputs = {"lang": "a&b=c", "n": None, "tags": ["x", "y z"], "deep": {"a": [1]}, "flag": False, "p&q": "r"}
    query = "lang=a%26b%3Dc&unit=c&tags=x&tags=y%20z&deep=%7B%22a%22%3A%5B1%5D%7D&flag=false&p%26q=r"
    assert fill(upstream, inputs) == (f"https://api.example.com/find?{query}", {})
    assert fill(upstream._replace(method="POST"), {"x": 1}).url == "https://api.example.com/find?unit=c"
    assert fill(Upstream("https://api.example.com", method="GET"), {"x": 1}).url == "https://api.example.com?x=1"


def test_the_origin_is_known_without_inputs():
    assert upstream_origin("https://API.example.com:8443/{a}?{b}") == "https://api.example.com:8443"


RUNTIME = '[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
HTTP = (
    'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com:8443/v1/{id}"\n'
    "[inputs.id]\nrequired = true\n"
)


def health(text):
    return load_action(parse_manifest(text.encode())).health


@pytest.mark.parametrize(
    ("said", "check"),
    [
        ("", HealthCheck("", "main.py", "health", 30, 5)),
        ('export = "check"\n', HealthCheck("", "main.py", "check", 30, 5)),
        ('entrypoint = "look.py"\ninterval = 5\ntimeout = 1\n', HealthCheck("", "look.py", "health", 5, 1)),
    ],
)
def test_code_has_a_function_that_is_named_as_that_of_the_action(said, check):
    assert health(f"{RUNTIME}[health]\n{said}") == check


@pytest.mark.parametrize(
    ("url", "asked", "network"),
    [
        ("/healthz?deep=1", "https://api.example.com:8443/healthz?deep=1", ("https://api.example.com:8443",)),
        (
            "https://Status.example.com/",
            "https://status.example.com/",
            ("https://api.example.com:8443", "https://status.example.com"),
        ),
    ],
)
def test_an_api_is_asked_at_a_url_whose_origin_is_a_permission(url, asked, network):
    action = load_action(parse_manifest(f'{HTTP}[health]\nurl = "{url}"\n'.encode()))
    assert action.health == HealthCheck(asked)
    assert action.permissions.network == network


def test_a_skill_that_says_nothing_has_no_check():
    assert health(RUNTIME) is health(HTTP) is None


NOT_RUN = "[health] is for an action with [runtime], or with an [executor] of kind http"
NO_URL = "an executor of kind http is asked at a url"
FORM = "url is https, or a path such as /healthz, without a fragment"


@pytest.mark.parametrize(
    ("text", "code", "message", "line"),
    [
        ("health = 1\n", "FIELD", "health is a table", 1),
        ("[health]\n", "FIELD", NOT_RUN, 1),
        ('kind = "instruction"\n[health]\nexport = "a"\n', "FIELD", NOT_RUN, 2),
        ('kind = "action"\n[executor]\nkind = "human"\n[health]\n', "FIELD", NOT_RUN, 4),
        ('[executor]\nkind = "http"\nurl = "https://a.example.com/"\n[health]\nurl = "/x"\n', "FIELD", NOT_RUN, 4),
        (f'{RUNTIME}[health]\nurl = "/x"\n', "FIELD", "url is for an executor of kind http", 5),
        (f'{RUNTIME}[health]\nexport = "a b"\n', "EXPORT", "is not the name of a function", 5),
        (f'{RUNTIME}[health]\nentrypoint = "../a.py"\n', "ENTRYPOINT", "entrypoint", 5),
        (f'{RUNTIME}[health]\nentrypoint = "check.sh"\n', "ENTRYPOINT", "is not a Python file of the folder", 5),
        (f"{RUNTIME}[health]\ninterval = 4\n", "FIELD", "interval is a whole number from 5 to 3600", 5),
        (f"{RUNTIME}[health]\ninterval = 3601\n", "FIELD", "interval is a whole number from 5 to 3600", 5),
        (f"{RUNTIME}[health]\ninterval = 7.5\n", "FIELD", "interval is a whole number", 5),
        (f"{RUNTIME}[health]\ntimeout = 0\n", "FIELD", "timeout is a whole number from 1 to 30", 5),
        (f"{RUNTIME}[health]\ntimeout = 31\n", "FIELD", "timeout is a whole number from 1 to 30", 5),
        (f"{HTTP}[health]\n", "FIELD", NO_URL, 7),
        (f'{HTTP}[health]\nurl = "/x"\nexport = "a"\n', "FIELD", "export is for code of the folder", 9),
        (f'{HTTP}[health]\nurl = "/x"\nentrypoint = "a.py"\n', "FIELD", "entrypoint is for code of the folder", 9),
        (f"{HTTP}[health]\nurl = 1\n", "FIELD", "url is text", 8),
        (f'{HTTP}[health]\nurl = "http://a.example.com/"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "healthz"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "//a.example.com/"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "/x#y"\n', "FIELD", FORM, 8),
        (f'{HTTP}[health]\nurl = "/v1/../../x"\n', "FIELD", "dots that lead elsewhere", 8),
        (f'{HTTP}[health]\nurl = "https://user@a.example.com/"\n', "URL", "", 8),
        (f'{HTTP}[health]\nurl = "/{{id}}"\n', "URL", "", 8),
        (f'{HTTP}[health]\nurl = "/${{KEY}}"\n', "URL", "", 8),
    ],
)
def test_what_a_folder_must_not_say_health(text, code, message, line):
    flaws = read_manifest(text.encode())[1]
    [(told, at)] = [(f"{flaw.code} {flaw.message}", flaw.place.line if flaw.place else None) for flaw in flaws]
    assert told.startswith(f"{code} ")
    assert message in told
    assert at == line
    assert flaws[0].diagnostics().fix


def test_unknown_fields_are_named():
    text = f'{RUNTIME}[health]\nexport = "check"\nevery = 5\n'
    assert tuple(parse_manifest(text.encode()).unknown) == (("health", "every"),)


def test_the_function_must_be_there(found):
    files = {"main.py": "def main(args): ...\n", "skill.toml": f"{RUNTIME}[health]\n"}
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:4:2"]
    files["skill.toml"] = f'{RUNTIME}[health]\nexport = "check"\n'
    assert found(**files) == ["error ENTRYPOINT_BROKEN skill.toml:5:1"]
    files["main.py"] += "def check(args): ...\n"
    assert found(**files) == []


def test_the_file_must_be_there_and_python(found):
    files = {"main.py": "def main(args): ...\n", "skill.toml": f'{RUNTIME}[health]\nentrypoint = "look.py"\n'}
    assert found(**files) == ["error ENTRYPOINT_ABSENT skill.toml:5:1"]
    assert found(**files, **{"look.py": "def health(args:\n"}) == ["error ENTRYPOINT_BROKEN look.py:1:11"]
    assert found(**files, **{"look.py": "def health(args): ...\n"}) == []


def test_what_is_wrong_with_one_file_is_said_once(found):
    manifest = {"skill.toml": f"{RUNTIME}[health]\n"}
    assert found(**manifest) == ["error ENTRYPOINT_ABSENT skill.toml:3:1"]
    assert found(**manifest, **{"main.py": "def main(\n"}) == ["error ENTRYPOINT_BROKEN main.py:1:9"]


@pytest.mark.parametrize("said", ["", '[health]\nexport = "check"\ninterval = 60\n'])
def test_a_published_skill_keeps_it(write, said):
    code = "def main(args): ...\ndef check(args): ...\n"
    outcome = prepare(write(**{"skill.toml": RUNTIME + said, "main.py": code}), "acme")
    assert isinstance(outcome, PreparedSkill), outcome
    assert outcome.skill.action is not None
    assert (outcome.skill.action.health is None) == (not said)
    assert unpack_skill(pack_skill(outcome.skill)) == outcome.skill


TASK = """kind = "action"
[inputs.quantity]
type = "integer"
default = 1
[inputs.item]
[executor]
kind = "human"
"""


@pytest.mark.parametrize(
    ("title", "message", "fix"),
    [
        ("Pick {quantity} of {order}", "{order} in title is no input", "quantity, item"),
        ("Pick {quantity", "a brace", "{order}"),
        ("Pick {{item}}", "a brace", "{order}"),
        ("Pick {item.__class__}", "a brace", "{order}"),
        ("Pick {quantity:>9}", "a brace", "{order}"),
        ("Pick {item!r}", "a brace", "{order}"),
        ("", "of one line", None),
        ("a\\nb", "of one line", None),
        ("x" * 121, "of one line", None),
    ],
)
def test_a_title_names_inputs_alone(title, message, fix):
    manifest, [flaw] = read_manifest(f'{TASK}title = "{title}"\n'.encode())
    assert message in flaw.message
    assert flaw.place
    assert flaw.place.line == 8
    assert fix is None or (flaw.fix and fix in flaw.fix)
    assert "title" not in (manifest.executor or {}) or "no input" in message


@pytest.mark.parametrize(
    ("inputs", "title"),
    [
        ({"quantity": 3, "item": "blue mug"}, "Pick 3 of blue mug"),
        ({"quantity": None}, "Pick \u2013 of \u2013"),
        ({"quantity": True, "item": ["a", "b"]}, 'Pick true of ["a", "b"]'),
        ({"quantity": 1, "item": " a\n{quantity}\tb "}, "Pick 1 of a {quantity} b"),
        ({"quantity": 1, "item": "x" * 1000}, f"Pick 1 of {'x' * 39}…"),
        ({"quantity": 1, "item": "\n"}, "Pick 1 of \u2013"),
    ],
)
def test_a_title_is_filled_in_one_line_with_short_values(inputs, title):
    assert fill_title("Pick {quantity} of {item}", inputs) == title
