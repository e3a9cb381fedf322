"""What an origin is found to want, by descriptors, refusals and the metadata of a resource."""

import json

import pytest

from skillwire.client.login import AuthRequirements, discover_auth, find_site, new_token, scopes_refused, try_out
from skillwire.errors import FetchError
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.messages import ClientIdentity, ServerMetadata, Tokens
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse, drive

ORIGIN = "https://skills.example"
INDEX = f"{ORIGIN}/.well-known/skill-sharing"
ASD = f"{ORIGIN}/.well-known/agent-skills/index.json"
RESOURCE = f"{ORIGIN}/.well-known/oauth-protected-resource"
TOKEN = new_token(
    ORIGIN, Tokens("t", None), ServerMetadata("https://auth.example/t"), ClientIdentity("me"), scope="", now=0.0
)
KEY = {"type": "api_key", "header": "X-Key", "description": "Ask\u202e us."}
OAUTH = {
    "type": "oauth2",
    "oauth2": {
        "authorization_url": "https://auth.example/a",
        "token_url": "https://auth.example/t",
        "scopes": {"read": "Read", "write": "Write"},
    },
}


def head(name, access):
    return {
        "id": f"example/{name}",
        "name": name,
        "version": "1.0.0",
        "capability_type": "api",
        "description": "Does it.",
        "access": access,
    }


def site(**auths):
    protocol = {"protocol": {"version": "1.0.0"}, "provider": {"name": "E"}}
    documents, entries = {}, []
    for number, (key, auth) in enumerate(auths.items()):
        access, _, name = key.partition("_")
        url = f"{ORIGIN}/{number}.json"
        entries.append({**head(name, access), "descriptor_url": url})
        documents[url] = {
            **head(name, access),
            **protocol,
            "endpoint": {"url": f"{ORIGIN}/run", "method": "POST"},
            "inputs": [],
            "output": {"content_type": "application/json"},
            "auth": auth,
        }
    return {INDEX: {**protocol, "skills": entries}, **documents}


def refusal(details=None, challenge="Bearer"):
    body = json.dumps({"error": {"code": "AUTH_REQUIRED", "message": "m", "details": details}})
    return HttpResponse("", 401, {"www-authenticate": challenge}, body.encode())


def find(documents):
    """Return what is wanted, and the URLs that were asked for."""
    asked = []

    def answer(request):
        asked.append(request.url)
        assert not {"authorization", "cookie"} & {name.lower() for name in request.headers}
        found = documents.get(request.url)
        if isinstance(found, HttpResponse):
            return HttpResponse(request.url, found.status, found.headers, found.body)
        if found is None:
            return HttpResponse(request.url, 404, {}, b"")
        return HttpResponse(request.url, 200, {"content-type": "application/json"}, json.dumps(found).encode())

    return drive(discover_auth(ORIGIN, AddressPolicy().naming(parse_url(ORIGIN))), answer), asked


def test_an_origin_that_says_nothing():
    wanted, asked = find({})
    assert wanted == AuthRequirements("unknown")
    assert asked == [INDEX, ASD, RESOURCE]


def test_a_descriptor_says_it():
    wanted, _ = find(site(restricted_a=KEY))
    assert (wanted.kind, wanted.header, wanted.said_by) == ("api_key", "X-Key", f"{ORIGIN}/0.json")
    assert "\u202e" not in wanted.advice


def test_skills_that_are_not_public_are_read_first():
    wanted, asked = find(site(public_a={"type": "none"}, restricted_b=OAUTH))
    assert asked == [INDEX, f"{ORIGIN}/1.json", RESOURCE]
    assert (wanted.kind, wanted.token_url, wanted.scopes) == ("oauth2", "https://auth.example/t", ("read", "write"))
    assert wanted.resource is None


def test_resource_to_request_is_in_the_metadata_alone():
    document = {"resource": f"{ORIGIN}/", "authorization_servers": ["https://other.example"]}
    wanted, _ = find({**site(restricted_a=OAUTH), RESOURCE: document})
    assert (wanted.resource, wanted.token_url, wanted.issuer) == (f"{ORIGIN}/", "https://auth.example/t", None)
    wanted, _ = find({**site(restricted_a=OAUTH), RESOURCE: {**document, "resource": "https://evil.example"}})
    assert (wanted.kind, wanted.resource) == ("oauth2", None)
    assert [doubt.code for doubt in wanted.errors] == ["LOGIN_STATE"]


@pytest.mark.parametrize(
    ("granted", "refused"),
    [(None, []), ("read", ["write"]), ("read write more", []), ("", ["read", "write"])],
)
def test_scopes_that_were_not_granted_are_known(granted, refused):
    assert scopes_refused("openid read write offline_access", Tokens("t", None, None, granted)) == refused


@pytest.mark.parametrize("refused_at", [None, f"{ORIGIN}/private"])
@pytest.mark.parametrize("status", [200, 403, 404, 502])
def test_new_token_is_tried_once(status, refused_at):
    sent = []

    def answer(request):
        sent.append((request.url, request.headers["Authorization"]))
        return HttpResponse(request.url, status, {}, b"{}")

    assert drive(try_out(TOKEN, ORIGIN, refused_at), answer) == (502 if status == 502 else None)
    assert sent == [(refused_at or ASD, "Bearer t")]


@pytest.mark.parametrize(
    ("status", "media_type", "is_site"),
    [(200, "application/json", True), (200, "text/html", False), (401, "", True), (404, "application/json", False)],
)
def test_a_site_below_a_path_is_one_that_has_an_index_there(status, media_type, is_site):
    """A host that answers every path with its page has no site there."""

    def answer(request):
        assert request.url == f"{ORIGIN}/team/.well-known/agent-skills/index.json"
        return HttpResponse(request.url, status, {"content-type": media_type}, b"")

    assert drive(find_site(f"{ORIGIN}/team"), answer) == (f"{ORIGIN}/team" if is_site else ORIGIN)


def test_token_that_the_origin_refuses_is_an_error_with_the_reason():
    body = b'{"error": {"code": "AUTH_REQUIRED", "message": "the access token is for another audience"}}'
    with pytest.raises(FetchError, match="for another audience") as caught:
        drive(try_out(TOKEN, ORIGIN, None), lambda _: HttpResponse(ASD, 401, {}, body))
    assert caught.value.code == "ACCESS_DENIED"
    assert "--resource" in str(caught.value.fix)


def test_an_origin_that_wants_nothing():
    assert find(site(public_a={"type": "none"}))[0].kind == "none"


@pytest.mark.parametrize("details", [{"auth": KEY}, KEY])
def test_a_refusal_says_it(details):
    wanted, asked = find({ASD: refusal(details)})
    assert (wanted.kind, wanted.header, wanted.refused_at) == ("api_key", "X-Key", ASD)
    assert asked == [INDEX, ASD]


@pytest.mark.parametrize("details", [None, [], "x", {"auth": 1}, {"auth": {"type": "nonsense"}}, {"type": "oauth2"}])
def test_a_refusal_that_says_nothing_is_kept_to_try_a_key_at(details):
    wanted, _ = find({INDEX: refusal(details)})
    assert (wanted.kind, wanted.refused_at) == ("unknown", INDEX)


def test_the_metadata_of_the_resource_says_whose_tokens_it_takes():
    document = {"resource": ORIGIN, "authorization_servers": ["https://auth.example"], "scopes_supported": ["read"]}
    challenge = f'Bearer realm="x", resource_metadata="{RESOURCE}/deep"'
    wanted, _ = find({INDEX: refusal(challenge=challenge), f"{RESOURCE}/deep": document})
    assert (wanted.kind, wanted.issuer, wanted.scopes) == ("oauth2", "https://auth.example", ("read",))
    assert find({RESOURCE: document})[0].issuer == "https://auth.example"


@pytest.mark.parametrize("named", ["https://evil.example/metadata", "http://10.0.0.1/", "//evil.example", "a b"])
def test_metadata_of_another_origin_is_not_even_asked_for(named):
    _, asked = find({INDEX: refusal(challenge=f'Bearer resource_metadata="{named}"')})
    assert asked == [INDEX, ASD, RESOURCE]


def test_what_cannot_be_read_is_told_and_stops_nothing():
    documents = site(restricted_a={"type": "nonsense"}, restricted_b=KEY)
    wanted, _ = find(documents)
    assert wanted.kind == "api_key"
    assert [doubt.code for doubt in wanted.errors] == ["VALIDATION_ERROR"]
    wanted, _ = find({INDEX: [1], RESOURCE: {"resource": "https://evil.example"}})
    assert (wanted.kind, [doubt.code for doubt in wanted.errors][-1]) == ("unknown", "LOGIN_STATE")


def test_a_url_inside_the_network_is_not_believed():
    inside = {**OAUTH, "oauth2": {**OAUTH["oauth2"], "token_url": "https://10.0.0.1/token"}}  # type: ignore[dict-item]  # a sample
    wanted, _ = find(site(restricted_a=inside))
    assert wanted.kind == "unknown"
    assert [doubt.code for doubt in wanted.errors] == ["DESCRIPTOR"]


def test_few_descriptors_are_read():
    documents = site(**{f"restricted_s{number}": {"type": "none"} for number in range(30)})
    _, asked = find(documents)
    assert len(asked) == 1 + 5 + 2


def test_a_key_is_never_tried_at_another_origin():
    documents = site(restricted_a=KEY)
    documents[INDEX]["skills"][0]["descriptor_url"] = "https://other.example/a.json"
    documents["https://other.example/a.json"] = refusal({"auth": KEY})
    wanted, _ = find(documents)
    assert (wanted.kind, wanted.said_by, wanted.refused_at) == ("api_key", "https://other.example/a.json", None)
    moved = HttpResponse("", 302, {"location": "https://other.example/index"}, b"")
    wanted, _ = find({ASD: moved, "https://other.example/index": refusal({"auth": KEY})})
    assert wanted.refused_at is None


def test_an_origin_that_cannot_be_asked_is_an_error():
    exchange = discover_auth(ORIGIN, AddressPolicy())
    next(exchange)
    with pytest.raises(FetchError):
        exchange.throw(FetchError("TIMEOUT", "late"))
