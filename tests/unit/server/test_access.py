"""Who sees what over HTTP: everybody, who has a grant, who has none. A private skill's name shows nowhere."""

import asyncio
import gzip
import json
import re
from base64 import b64encode

import brotli
import pytest
import structlog
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.opened import open_tokens
from tests.support.publishing import Asgi, write_skill

from skillwire import limits
from skillwire.model.access import Principal
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.protocols.skill_sharing.signing import sign
from skillwire.protocols.skill_sharing.validation import validate
from skillwire.server import create_app, revision, routing
from skillwire.server.revision import SiteUrlBody

INDEX = "/.well-known/agent-skills/index.json"
OLD_INDEX = "/.well-known/skills/index.json"
SHARING = "/.well-known/skill-sharing"
HOST = {"Host": "skills.example.com"}
SECRET_NAME = "omega-plan"  # noqa: S105  # a skill's name
#: The lists of every protocol.
LISTS = ["/?q=plan", "/hits?q=plan", INDEX, OLD_INDEX, SHARING, "/skills", "/", "/api/search?q=plan", "/api/search?q="]


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens()


@pytest.fixture
async def client(tmp_path, tokens):  # noqa: ARG001  # made first, so that the state folder is the test's
    folder = tmp_path / "skills"
    write_skill(folder, "open-notes", {"run.sh": "echo"})
    write_skill(folder, "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_skill(folder, SECRET_NAME, {"skill.toml": 'access = "private"\n', "notes.txt": "x"})
    application = create_app([folder], blobs=tmp_path / "blobs", publisher="example-corp")
    await application.startup()
    await application.catalog.first(20)
    yield Asgi(application)
    await application.shutdown()


@pytest.fixture
def key(tokens):
    """Make an API key that opens these skills; return the header fields that show it."""

    def make(*skills, **more):
        return {**HOST, "X-API-Key": tokens.issue("caller", skills=skills, **more).secret}

    return make


def sharing_names(answer):
    return {skill["id"].partition("/")[2] for skill in answer.json()["skills"]}


def names_in(answer):
    return {skill["name"] for skill in answer.json()["skills"]}


@pytest.mark.spec("SSP-well-known")
async def test_everybody_finds_public_and_restricted_skills(client):
    answer = await client.get(SHARING, HOST)
    assert (answer.status, answer.fields["content-type"]) == (200, "application/json")
    assert sharing_names(answer) == {"open-notes", "staff-guide"}
    assert answer.json()["provider"] == {"name": "example-corp", "url": "http://skills.example.com"}
    assert names_in(await client.get(INDEX)) == {"open-notes"}
    assert validate(answer.json(), "SkillIndex").valid


@pytest.mark.spec("SSP-registry")
async def test_registry_answers_a_list_and_filters_it(client):
    everything = await client.get("/skills", HOST)
    assert everything.json() == (await client.get(SHARING, HOST)).json()["skills"]
    assert (await client.get("/skills?type=api", HOST)).json() == []
    assert (await client.get("/skills?type=knowledge", HOST)).json() == everything.json()
    answer = await client.get("/skills?type=exec", HOST)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "VALIDATION_ERROR")


@pytest.mark.spec("SSP-direct-url")
async def test_descriptor_is_at_the_url_that_the_index_gives(client):
    for entry in (await client.get(SHARING, HOST)).json()["skills"]:
        path = entry["descriptor_url"].removeprefix("http://skills.example.com")
        answer = await client.get(path, HOST)
        assert validate(answer.json()).valid
        assert {key: answer.json()[key] for key in ("id", "name", "version", "access")} == {
            key: entry[key] for key in ("id", "name", "version", "access")
        }
        held = await client.get(path, {**HOST, "If-None-Match": answer.fields["etag"]})
        assert held.status == 304


async def test_large_lists_for_ever_other_addresses_are_made_only_so_often(client, monkeypatch):
    monkeypatch.setattr(routing, "_MANY_SKILLS", 2)
    monkeypatch.setattr(client.application.services, "clock", lambda: 1000.0)
    answers = [await client.get(SHARING, {"Host": f"h{number}.example.com"}) for number in range(40)]
    assert [answer.status for answer in answers].count(200) == 30
    assert answers[-1].status == 429
    assert int(answers[-1].fields["retry-after"]) >= 1
    assert (await client.get(SHARING, {"Host": "h1.example.com"})).status == 200


@pytest.mark.spec("SSP-auth-none")
async def test_endpoint_of_an_instruction_gives_its_artifact(client):
    descriptor = (await client.get("/skills/open-notes.json", HOST)).json()
    path = descriptor["endpoint"]["url"].removeprefix("http://skills.example.com")
    assert (await client.get(path)).status == 200


class TestWithAGrant:
    @pytest.mark.spec("SSP-access-in-use")
    @pytest.mark.spec("SSP-auth-api-key")
    async def test_sees_and_reads_what_was_granted(self, client, key):
        fields = key(SECRET_NAME)
        assert names_in(await client.get(INDEX, fields)) == {"open-notes", SECRET_NAME}
        assert sharing_names(await client.get(SHARING, fields)) == {"open-notes", "staff-guide", SECRET_NAME}
        for path in (
            f"/.well-known/agent-skills/{SECRET_NAME}/notes.txt",
            f"/@{SECRET_NAME}{INDEX}",
            f"/skills/{SECRET_NAME}.json",
        ):
            answer = await client.get(path, fields)
            assert answer.status == 200, path
            assert answer.fields["cache-control"] == "private, no-cache"
            assert {"Authorization", "X-API-Key"} <= set(answer.fields["vary"].split(", "))
        assert (await client.get(INDEX)).fields["cache-control"].startswith("public")

    async def test_is_told_how_often_it_may_still_ask(self, client, key, monkeypatch):
        fields = key("open-notes")
        monkeypatch.setattr(client.application.services.authentication, "_clock", lambda: 1000.0)
        left = [int((await client.get(path, fields)).fields["ratelimit-remaining"]) for path in (INDEX, SHARING, "/")]
        assert left == [99, 98, 97]
        assert "ratelimit-limit" not in (await client.get(INDEX)).fields

    async def test_two_keys_of_one_name_are_counted_apart(self, client, key):
        one, two = key("open-notes"), key("open-notes")
        for _ in range(3):
            await client.get(INDEX, one)
        assert (await client.get(INDEX, two)).fields["ratelimit-remaining"] == "99"

    async def test_key_works_as_a_bearer_token(self, client, key):
        bearer = {**HOST, "Authorization": f"Bearer {key('*')['X-API-Key']}"}
        assert names_in(await client.get(INDEX, bearer)) == {"open-notes", "staff-guide", SECRET_NAME}

    async def test_key_works_as_a_password_with_any_user_name(self, client, key):
        secret = key("*")["X-API-Key"]
        for name in ("", "ci"):
            basic = {**HOST, "Authorization": f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}"}
            assert names_in(await client.get(INDEX, basic)) == {"open-notes", "staff-guide", SECRET_NAME}

    @pytest.mark.spec("SSP-auth-custom")
    async def test_signed_request_counts_once(self, client, tokens):
        issued = tokens.issue("signer", skills=["*"], kind="signing_key")
        now = int(open_tokens()._clock()) + 1
        signature = sign(issued.token.token_id, issued.secret.encode(), "GET", INDEX, b"", timestamp=now)
        fields = {**HOST, "X-Signature": str(signature)}
        assert SECRET_NAME in names_in(await client.get(INDEX, fields))
        again = await client.get(INDEX, fields)
        assert (again.status, again.json()["error"]["details"]["reason"]) == (401, "repeated")
        for _ in range(40):  # it was no guess
            assert (await client.get(INDEX, fields)).status == 401

    async def test_whatever_is_answered_is_for_no_shared_cache(self, client, key):
        fields = key("open-notes")
        for path in [*LISTS, "/skills/open-notes", "/hits?q=notes", "/nothing", "/healthz", "/openapi.json"]:
            answer = await client.get(path, fields)
            assert answer.fields["cache-control"] in {"private, no-cache", "no-store"}, path
            assert "Authorization" in answer.fields["vary"], path
        assert "Accept" in (await client.get("/skills", fields)).fields["vary"].split(", ")  # a page for browsers

    async def test_audience_that_could_not_be_made_is_tried_again(self, client, key, monkeypatch):
        fields = key(SECRET_NAME)
        with monkeypatch.context() as broken:
            broken.setattr(revision, "make_access_view", lambda *_: 1 / 0)
            assert (await client.get(INDEX, fields)).status == 500
        assert SECRET_NAME in names_in(await client.get(INDEX, fields))

    async def test_indexes_of_all_principals_together_are_bounded(self, client, monkeypatch):
        body = SiteUrlBody((), lambda: b"{}", CachePolicy.PRIVATE)
        size = (await revision.IndexCache().prepare(INDEX, body)).size + revision._OVERHEAD
        monkeypatch.setattr(limits, "SERVER_PRINCIPAL_INDEXES_BYTES", 5 * size)
        views = revision.AccessViews("")
        current = await client.application.catalog.first()
        made = [await views.of(Principal("caller", frozenset({f"skill-{number}"})), current) for number in range(10)]
        for view in made:
            await view.indexes.prepare(INDEX, body)
        assert [view.indexes.has(INDEX) for view in made] == [False] * 5 + [True] * 5

    async def test_grant_ends_with_its_token(self, client, tokens, key):
        fields = key(SECRET_NAME)
        assert SECRET_NAME in names_in(await client.get(INDEX, fields))
        tokens.revoke(tokens.all()[0].token_id)
        assert (await client.get(INDEX, fields)).status == 401


@pytest.mark.spec("SSP-auth-flow")
class TestRefusals:
    @pytest.mark.spec("SSP-auth-required")
    async def test_bad_credentials_are_refused_whatever_is_asked_for(self, client):
        for fields in (
            {"X-API-Key": "x"},
            {"Authorization": "Bearer x"},
            {"Authorization": "Basic eDp5"},
            {"X-Signature": "x"},
            {"X-API-Key": "x", "Authorization": "Bearer x"},
        ):
            for path in (INDEX, "/healthz", "/nothing", "/"):
                answer = await client.get(path, fields)
                error = answer.json()["error"]
                assert (answer.status, error["code"]) == (401, "AUTH_REQUIRED"), (fields, path)
                assert error["details"]["required_auth_type"] == "api_key"
                assert error["details"]["header"] == "X-API-Key"
                assert answer.fields["www-authenticate"].startswith("Bearer")

    @pytest.mark.spec("SSP-access-in-use")
    @pytest.mark.spec("SSP-permission-denied")
    async def test_restricted_skill_wants_credentials_first_and_then_a_grant(self, client, key):
        path = "/.well-known/agent-skills/staff-guide/SKILL.md"
        nobody = await client.get(path)
        assert (nobody.status, nobody.json()["error"]["code"]) == (401, "AUTH_REQUIRED")
        somebody = await client.get(path, key("open-notes", scopes=["read"]))
        error = somebody.json()["error"]
        assert (somebody.status, error["code"]) == (403, "PERMISSION_DENIED")
        assert error["details"] == {"required_scopes": ["skill:staff-guide"], "granted_scopes": ["read"]}
        assert (await client.get(path, key("staff-guide"))).status == 200

    async def test_more_signatures_than_are_remembered_wait(self, client, tokens, monkeypatch):
        monkeypatch.setattr(limits, "SIGNATURES_KEPT", 2)
        issued = tokens.issue("signer", skills=["*"], kind="signing_key")
        now = int(tokens._clock()) + 1
        answers = []
        for number in range(3):
            signature = sign(issued.token.token_id, issued.secret.encode(), "GET", INDEX, b"", timestamp=now + number)
            answers.append(await client.get(INDEX, {**HOST, "X-Signature": str(signature)}))
        assert [answer.status for answer in answers] == [200, 200, 429]
        error = answers[-1].json()["error"]
        assert (error["code"], error["details"]) == ("TOO_MANY_SIGNATURES", {"retry_after": 300})
        assert answers[-1].fields["retry-after"] == "300"

    async def test_guessing_is_slowed_down(self, client, key, monkeypatch):
        authentication, now = client.application.services.authentication, 1000.0
        monkeypatch.setattr(authentication, "_clock", lambda: now)
        answers = [await client.get(INDEX, {"X-API-Key": f"guess-{number}"}) for number in range(40)]
        assert [answer.status for answer in answers].count(401) == 30
        last = answers[-1]
        assert (last.status, last.json()["error"]["code"]) == (429, "TOO_MANY_REQUESTS")
        assert int(last.fields["retry-after"]) >= 1
        assert last.fields["ratelimit-remaining"] == "0"
        pause = 1000 * int(last.fields["retry-after"])
        assert last.json()["error"]["retry"] == {"suggested_delay_ms": pause, "max_attempts": 3}
        assert (await client.get(INDEX)).status == 200
        assert (await client.get(INDEX, key("*"))).status == 200  # of another program at the same address
        assert (await client.get(INDEX, {"X-API-Key": "guess"})).status == 429
        monkeypatch.setattr(authentication, "_clock", lambda: now + int(last.fields["retry-after"]))
        assert (await client.get(INDEX, {"X-API-Key": "guess"})).status == 401

    @pytest.mark.parametrize(
        "fields",
        [{"X-API-Key": ""}, *({"Authorization": one} for one in ("Basic ?", "Basic gIA=", "Basic eA==", "Digest x"))],
    )
    async def test_malformed_credentials_are_refused(self, client, fields):
        assert (await client.get(INDEX, fields)).status == 401

    async def test_passwords_are_guesses_too(self, client, monkeypatch):
        monkeypatch.setattr(client.application.services.authentication, "_clock", lambda: 1000.0)
        statuses = [(await client.get(INDEX, {"Authorization": "Basic eDp5"})).status for _ in range(35)]
        assert (statuses.count(401), statuses.count(429)) == (30, 5)

    async def test_guesses_at_once_are_counted_one_by_one(self, client, monkeypatch):
        monkeypatch.setattr(client.application.services.authentication, "_clock", lambda: 1000.0)
        asked = (client.get(INDEX, {"X-API-Key": f"sw_{'a' * 16}_{number:043}"}) for number in range(45))
        statuses = [answer.status for answer in await asyncio.gather(*asked)]
        assert (statuses.count(401), statuses.count(429)) == (30, 15)

    async def test_blanks_around_a_key_are_not_part_of_it(self, client, key):
        secret = key("*")["X-API-Key"]
        for fields in ({"X-API-Key": f"{secret} "}, {"Authorization": f"Bearer {secret}\t "}):
            assert (await client.get(INDEX, {**HOST, **fields})).status == 200

    async def test_right_credentials_are_never_counted_as_guesses(self, client, key):
        good = [key("*"), key("*")]
        answers = [await client.get(INDEX, good[number % 2]) for number in range(80)]
        assert {answer.status for answer in answers} == {200}


class TestPrivateSkill:
    """The walk: whatever a stranger or a caller without the grant asks for, the name shows nowhere."""

    def paths(self, name):
        return [
            f"/.well-known/agent-skills/{name}/SKILL.md",
            f"/.well-known/agent-skills/{name}/notes.txt",
            f"/.well-known/agent-skills/{name}.tar.gz",
            f"/.well-known/skills/{name}/SKILL.md",
            f"/@{name}{INDEX}",
            f"/@{name}{OLD_INDEX}",
            f"/skills/{name}.json",
            f"/skills/{name}",
            f"/skills/{name}/files/notes.txt",
            f"/skills/{name}/executions",
        ]

    async def test_its_name_is_in_no_list_header_metric_or_log(self, client, key):
        with structlog.testing.capture_logs() as log:
            for fields in (HOST, key("open-notes"), key("staff-guide")):
                for path in [*LISTS, "/metrics", "/healthz", "/readyz", f"/@example-corp{INDEX}", "/openapi.json"]:
                    for method in ("GET", "HEAD", "OPTIONS", "POST"):
                        for coding in ("identity", "gzip", "br"):
                            answer = await client.request(path, {**fields, "Accept-Encoding": coding}, method=method)
                            assert SECRET_NAME not in repr(answer.fields), (path, method)
                            assert SECRET_NAME.encode() not in decoded(answer), (path, method, coding)
        assert SECRET_NAME not in json.dumps(log, default=repr)

    async def test_asking_for_it_is_answered_as_asking_for_nothing(self, client, key):
        unknown = "sigma-plan"  # as long, so that lengths can be compared
        assert len(unknown) == len(SECRET_NAME)
        for fields in (HOST, key("open-notes")):
            for hidden, absent in zip(self.paths(SECRET_NAME), self.paths(unknown), strict=True):
                for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE"):
                    told = await client.request(hidden, fields, method=method)
                    expected = await client.request(absent, fields, method=method)
                    assert normal(told, SECRET_NAME) == normal(expected, unknown), (hidden, method)
                    assert told.status in ({404} if method in {"GET", "HEAD"} else {204, 404, 405}), (hidden, method)

    async def test_its_artifact_cannot_be_had_by_its_digest(self, client, key):
        index = await client.get(INDEX, key(SECRET_NAME))
        [entry] = [skill for skill in index.json()["skills"] if skill["name"] == SECRET_NAME]
        path = f"/.well-known/agent-skills/{entry['url']}"
        assert (await client.get(path, key(SECRET_NAME))).status == 200
        assert (await client.get(path)).status == 404
        assert (await client.get(path, key("open-notes"))).status == 404

    async def test_whatever_happens_to_it_readiness_and_metrics_say_the_same(self, client, tmp_path):
        async def told():
            metrics = (await client.get("/metrics")).body.decode().splitlines()
            return (await client.get("/readyz")).json(), [
                line for line in metrics if "_skills" in line or "_cat" in line
            ]

        client.application.catalog.stop()  # its thread would look at the folders at the same time
        before = await told()
        folder = tmp_path / "skills" / SECRET_NAME
        write_skill(folder.parent, "another-one", {"skill.toml": 'access = "private"\n'})
        for change in ("changed", "no frontmatter"):
            (folder / ("notes.txt" if change == "changed" else "SKILL.md")).write_text(change)
            client.application.catalog.folders.refresh(None)
            client.application.catalog._publish()
            assert await told() == before
        for file, content in (("open-notes", "no frontmatter"), ("staff-guide", "---\nname: staff-guide\n---\n")):
            (tmp_path / "skills" / file / "SKILL.md").write_text(content)
        client.application.catalog.folders.refresh(None)
        client.application.catalog._publish()
        ready, metrics = await told()
        assert ready["revision"] == before[0]["revision"] + 1
        assert [one["folder"] for one in ready["broken"]] == ["open-notes"]
        assert "skillwire_broken_skills 1.0" in metrics

    async def test_tags_of_lists_say_nothing_of_it(self, client, tmp_path):
        client.application.catalog.stop()  # as above
        before = {path: (await client.get(path, HOST)).fields.get("etag") for path in LISTS}
        folder = tmp_path / "skills" / SECRET_NAME
        (folder / "notes.txt").write_text("changed")
        client.application.catalog.folders.refresh(None)
        client.application.catalog._publish()
        after = {path: (await client.get(path, HOST)).fields.get("etag") for path in LISTS}
        assert before == after


def decoded(answer):
    coding = answer.fields.get("content-encoding", "identity")
    decode = {"gzip": gzip.decompress, "br": brotli.decompress, "identity": bytes}[coding]
    return decode(answer.body) if answer.body else b""


def normal(answer, name):
    """Return what was answered with ``name`` blotted out, and without what depends on it as a digest does."""
    differs = {"etag", "ratelimit-remaining", "ratelimit-reset"}
    fields = {key: value.replace(name, "*") for key, value in answer.fields.items() if key not in differs}
    body = re.sub(rb"\s+", b" ", decoded(answer).replace(name.encode(), b"*"))
    return answer.status, fields, body


async def test_below_a_path_of_another_application_urls_lead_below_that_path(client):
    outer = Asgi(Starlette(routes=[Mount("/team", app=client.application)]))
    for path, urls in (
        (SHARING, lambda found: [skill["descriptor_url"] for skill in found["skills"]]),
        ("/skills", lambda found: [skill["descriptor_url"] for skill in found]),
        ("/skills/open-notes.json", lambda found: [found["endpoint"]["url"]]),
        ("/api/search?q=notes", lambda found: [skill["url"] for skill in found["skills"]]),
    ):
        answer = await outer.get(f"/team{path}", HOST)
        found = urls(answer.json())
        assert found
        for url in found:
            assert url.startswith("http://skills.example.com/team/"), path
            assert (await outer.get(url.removeprefix("http://skills.example.com"), HOST)).status == 200, url
