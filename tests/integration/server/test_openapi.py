"""``/openapi.json`` describes each route that the application answers, and none else."""

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import brotli
import pytest
from tests.support.eventually import eventually_async
from tests.support.fake_lan_agent import FakeLanAgent, lan_skill
from tests.support.invoking import Caller, write_action
from tests.support.openapi import check_answer, check_openapi, document
from tests.support.opened import open_tokens
from tests.support.publishing import write_skill
from tests.support.registry_site import RegistrySite

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.model.lan import LanMember, LanScene
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server import create_app
from skillwire.server.openapi import OPENAPI_PATH
from skillwire.server.routes.lan import encode_snapshot
from skillwire.version import VERSION

DOCS = Path(__file__).parents[3] / "docs"
PATHS = document()["paths"]
HOST = {"Host": "skills.example.com"}
CONFIGURATION = """
[oauth2]
issuer = "https://login.example.com"
audience = "skills"
[executions]
grant_all = true
[rpc]
run_code = true
[bridges]
ai_catalog = "1.0"
agent_card = "1.0"
"""
#: What is called and not read.
UNREAD = (
    "/skills/ask-somebody/executions",
    "/rpc",
    "/blobs",
    "/mcp",
    "/search",
    "/lan/certificates",
    "/api/pki/enroll",
    "/api/skills/search",
)
#: Paths of the server that the document leaves out, and why.
LEFT_OUT = {
    "/login": "a form for people; programs show their key with each request",
    "/logout": "the same",
    "/account/sign-in": "begins a sign-in at the issuer, for people",
    "/account/sign-in/answer": "the address to which the issuer sends them back",
    "/account/new": "a form for people who signed in for the first time",
    "/executions": "a page for people who signed in; programs know the ids of theirs",
    "/executions/live": "the stream of that page, in HTML",
    "/inbox": "a page for people who signed in",
    "/lan": "the same; programs ask /lan.json",
    "/lan/live": "the stream of that page, in HTML",
    "/executions/{id}/live": "the stream of a page for people who signed in",
    "/executions/{id}/cancel": "a form of that page",
    "/executions/{id}/inputs.json": "a document of that page",
    "/executions/{id}/output.json": "the same",
    "/inbox/live": "the stream of a page for people who signed in",
    "/inbox/{id}": "a page for people who signed in",
    "/inbox/{id}/claim": "a form of that page",
    "/inbox/{id}/complete": "the same",
    "/inbox/{id}/reject": "the same",
    "/inbox/{id}/release": "the same",
    "/inbox/{rest}": "the page of tasks that are not there",
    "/api/v1/skills": "as /api/skills; a registry has another API there",
    "/api/v1/skills/search": "the same",
    "/api/v1/skills/{skill}": "the same",
    "/api/v1/skills/{skill}/download": "the same",
    "/.well-known/{rest}": "Agent Skills behind the URL of an index, which OpenAPI cannot say",
    "/@{rest}": "the same",
    "/skills/{rest}": "leads to the path without a slash at its end",
    "/{rest}": "paths that publishers' own descriptors name",
}
#: The same of a registry, which has an API of its own where others have ``/api/v1/skills``.
LEFT_OUT_OF_A_REGISTRY = {
    **{path: why for path, why in LEFT_OUT.items() if not path.startswith("/api/v1/")},
    "/account": "a page for people who signed in; programs ask /api/registry/whoami",
    "/account/tokens": "a form of that page; programs send to /api/registry/tokens",
    "/account/tokens/{token}/revoke": "the same",
    "/account/device": "a form for people, who let in a program that asked /api/registry/oauth/device",
    "/account/setup": "a form for the first person; programs send to /api/registry/setup",
}
#: Agent Skills answers each of its paths also behind the URL of an index, which OpenAPI cannot say.
PASTED = re.compile(r"^/\.well-known/(agent-skills|skills)(/index\.json)?(?=/\.well-known/)")


@pytest.fixture
async def client(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "csv-profile", {"scripts/run.sh": "echo", "skill.toml": 'scenes = ["office"]\n'})
    write_skill(folder, "open-notes")
    write_action(folder, "ask-somebody", tables='[executor]\nkind = "human"\n')
    settings = tmp_path / "server.toml"
    settings.write_text(CONFIGURATION)
    authority = AuthorityFolder.create(tmp_path / "ca", "Example", time.time())
    application = create_app(
        [folder],
        blobs=tmp_path / "blobs",
        publisher="example-corp",
        access_log=False,
        configuration=settings,
        lan=LanSettings(authority=str(authority.folder)),
    )
    agent: Any = FakeLanAgent(None, lambda _: None)
    assert application.lan is not None
    application.lan._make_agent = lambda *_: agent
    application.lan.reached_at(("127.0.0.1", 8000))
    await application.startup()
    await eventually_async(lambda: agent.announced)
    agent.skills = [lan_skill(), lan_skill(is_verified=True)]
    agent.scenes = [LanScene("auth", "group-auth-001", (LanMember("agent-002", "leads-sync", "PRIMARY"),))]
    await application.catalog.first(20)
    client: Any = Caller(application)
    client.operator = {"X-API-Key": open_tokens().issue("ann", scopes=["operator"]).secret}
    yield client
    await application.shutdown()


def template_of(path):
    """Return the row that describes ``path``: the one with the fewest parameters."""

    def pattern(template):
        return re.sub(r"\\\{(\w+)\\\}", lambda name: ".+" if name[1] == "file" else "[^/]+", re.escape(template))

    fitting = [template for template in PATHS if re.fullmatch(pattern(template), PASTED.sub("", path))]
    assert fitting, f"{path} is not described"
    return min(fitting, key=lambda template: (template.count("{"), -len(template)))


async def everything(client):
    """Return every path that the application is known to answer: its tables, its indexes, and what pages link to."""
    revision = client.application.catalog.current
    paths = {path for path in table(client) if "{" not in path and path not in {*LEFT_OUT, *UNREAD}}
    paths |= set(revision.site.paths())
    paths |= {
        f"{scope}{base}/{rest}"
        for scope in ("", "/@csv-profile", "/@example-corp", "/@office")
        for base in ("/.well-known/agent-skills", "/.well-known/skills")
        for rest in ("index.json", "csv-profile/SKILL.md", "csv-profile/scripts/run.sh", "csv-profile.tar.gz")
    }
    paths |= {f"/@office{path}" for path in revision.site.paths() if "/sha256/" in path and not path.startswith("/@")}
    for skill in revision.catalog.skills.values():
        artifact = f"sha256/{skill.artifact.digest.hex}{skill.artifact.extension}"
        paths |= {
            f"{scope}/.well-known/{base}/{artifact}"
            for scope in ("", "/@office")
            for base in ("agent-skills", "skills")
        }
    paths |= {"/.well-known/skill-sharing", "/.well-known/oauth-protected-resource", "/skills", "/", "/hits"}
    paths |= {
        entry["descriptor_url"].removeprefix("http://skills.example.com")
        for entry in (await client.get("/skills", HOST)).json()
    }
    for skill in revision.catalog.skills:
        paths |= {f"/@example-corp/{skill}/versions.json", f"/api/skills/{skill}", f"/api/skills/{skill}/download"}
        paths |= {f"/skills/{skill}{part}" for part in ("", "/files", "/files/SKILL.md", "/versions", "/security")}
    paths |= {"/skills/ask-somebody/call"}
    call = await client.invoke("ask-somebody", publisher="example-corp")
    execution = f"/executions/{call.json()['execution_id']}"
    await client.request(execution, HOST, method="DELETE")
    paths |= {execution, f"{execution}/result"}
    page = (await client.get("/", HOST)).body.decode()
    kept = await client.request("/blobs", {**HOST, "Content-Type": "text/plain"}, method="POST", body=b"Hello")
    paths |= {kept.fields["location"]}
    paths |= {f"/assets/{name}" for name in re.findall(r'(?:href|src)="[^"]*assets/([^"]+)"', page)}
    return sorted(paths)


async def test_every_route_is_described_and_none_else(client):
    answered: dict[str, str] = {template_of(path): path for path in UNREAD}
    for path in await everything(client):
        fields = client.operator if path in {"/lan.json", "/executions.json"} else {}
        assert (await client.get(path, {**HOST, **fields})).status == 200, path
        answered.setdefault(template_of(path), path)
    assert set(answered) == set(PATHS)


def table(client):
    """Return the paths of the route table, with parameters as OpenAPI writes them."""
    return {re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path) for route in client.application.router.routes}


@pytest.fixture
async def registry(tmp_path):
    site = RegistrySite(tmp_path)
    yield site
    await site.parts.downloads.close()


def check_rows(rows, paths, left_out):
    """Hold the rows of a table to what is described and to what is left out."""
    described = rows - set(left_out)
    assert described | set(left_out) == rows
    assert described == set(paths)
    assert not set(left_out) & set(paths)


async def test_every_row_is_described_or_left_out_for_a_reason(client):
    check_rows(table(client), PATHS, LEFT_OUT)
    assert {"/mcp", "/search", "/lan.json", "/lan/certificates", "/lan/revocations"} <= set(PATHS)


async def test_every_row_of_a_registry_is_described_or_left_out_for_a_reason(registry):
    paths = document(is_registry=True)["paths"]
    check_rows(table(registry), paths, LEFT_OUT_OF_A_REGISTRY)
    assert {path: paths[path] for path in PATHS} == PATHS
    assert {"/api/registry", "/api/v1/skills", "/v1/skills", "/publishers"} <= set(paths)


async def test_methods_of_a_registry_are_those_that_are_described(registry):
    paths = document(is_registry=True)["paths"]
    for template in paths.keys() - PATHS.keys():
        described = {method.upper() for method in paths[template] if method != "parameters"}
        refused = await registry.request(re.sub(r"\{\w+\}", "x", template), HOST, method="PROPFIND")
        assert (refused.status, set(refused.fields["allow"].split(", "))) == (405, described), template


@pytest.mark.parametrize(
    "path",
    [
        "/lan.json",
        "/.well-known/skill-discovery",
        "/.well-known/ai-catalog.json",
        "/.well-known/agent-card.json",
        "/.well-known/agent-skills/index.json",
        "/.well-known/skills/index.json",
        "/.well-known/oauth-protected-resource",
        "/api/search",
        "/healthz",
        "/readyz",
    ],
)
async def test_what_is_answered_fits_its_schema(client, path):
    answer = await client.get(path, {**HOST, **client.operator})
    ((media_type, content),) = PATHS[path]["get"]["responses"]["200"]["content"].items()
    assert (answer.status, answer.fields["content-type"]) == (200, media_type)
    fitting(answer.json(), content["schema"])


async def test_a_search_of_the_catalog_is_answered_as_described(client):
    for body, status in (
        ({"query": {"text": "notes", "filter": {"tags": ["office"]}}, "pageSize": 1}, 200),
        ({"query": {"text": "useful"}, "pageSize": 1}, 200),
        ({"query": {}}, 400),
    ):
        answer = await client.post("/search", body)
        assert answer.status == status
        ((_, content),) = PATHS["/search"]["post"]["responses"][str(status)]["content"].items()
        fitting(answer.json(), content["schema"])


def test_the_network_without_an_agent_fits_its_schema():
    fitting(json.loads(encode_snapshot(None, "no interface is up", {})), "LanSnapshotDocument")


def test_the_page_names_the_documents_that_answer_no_preflight():
    silent = {path for path, row in PATHS.items() if "options" not in row and not is_page(row)}
    page = (DOCS / "reference" / "http.md").read_text()
    sentence = page.partition("\nOPTIONS lists methods")[2].partition("all but pages,")[2].partition(".\n\n")[0]
    assert set(re.findall(r"`([^`]+)`", sentence)) == silent


def is_page(row):
    """Whether a row answers in HTML, or with what a page needs."""
    return row["get"]["tags"] == ["Pages"]


def fitting(value, schema):
    """Hold a value to a schema of the document, or to the one of this name."""
    node = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    check_answer(value, node, document())


async def test_methods_are_those_that_the_application_answers(client):
    by_template = {template_of(path): path for path in [*await everything(client), *UNREAD]}
    for template, path in by_template.items():
        described = {method.upper() for method in PATHS[template] if method != "parameters"}
        refused = await client.request(path, HOST, method="PUT")
        assert refused.status == 405, path
        assert set(refused.fields["allow"].split(", ")) == described, path
        options = await client.request(path, HOST, method="OPTIONS")
        assert options.status == (204 if "OPTIONS" in described else 405), path


async def test_bad_credentials_are_refused_everywhere(client):
    for path in (await everything(client))[:30]:  # an address may fail so often a minute
        assert (await client.get(path, {**HOST, "X-API-Key": "x"})).status == 401, path


async def test_the_document_is_served_as_the_indexes_are(client):
    answer = await client.get(OPENAPI_PATH, HOST)
    assert (answer.status, answer.fields["content-type"]) == (200, "application/json")
    assert answer.json() == document()
    assert answer.json()["info"]["version"] == VERSION
    for coding, decode in (("gzip", gzip.decompress), ("br", brotli.decompress)):
        packed = await client.get(OPENAPI_PATH, {**HOST, "Accept-Encoding": coding})
        assert packed.fields["content-encoding"] == coding
        assert decode(packed.body) == answer.body
        held = await client.get(OPENAPI_PATH, {**HOST, "If-None-Match": packed.fields["etag"]})
        assert (held.status, held.body) == (304, b"")


def _references(node):
    if isinstance(node, dict):
        yield from [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        for name, inner in node.items():
            yield from (
                [f"#/components/securitySchemes/{scheme}" for one in inner for scheme in one]
                if name == "security"
                else _references(inner)
            )
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


@pytest.mark.parametrize("is_registry", [False, True])
def test_the_document_is_openapi_and_holds_what_it_refers_to_and_nothing_more(is_registry):
    whole = json.loads(json.dumps(document(is_registry=is_registry)))
    check_openapi(whole)
    components = {f"#/components/{kind}/{name}" for kind, named in whole["components"].items() for name in named}
    assert set(_references(whole)) == components
