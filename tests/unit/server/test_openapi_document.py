"""``/openapi.json`` describes each route that the application answers, and none else."""

from __future__ import annotations

import gzip
import json
import re

import brotli
import pytest
import schemathesis
from tests.support.invoking import Caller, write_action
from tests.support.publishing import write_skill

from skillwire.server import app
from skillwire.server.openapi import OPENAPI_PATH, document
from skillwire.version import VERSION

PATHS = document()["paths"]
HOST = {"Host": "skills.example.com"}
#: What is called and not read.
POSTED = ("/skills/ask-somebody/executions", "/rpc", "/blobs")
#: Agent Skills answers each of its paths also behind the URL of an index, which OpenAPI cannot say.
PASTED = re.compile(r"^/\.well-known/(agent-skills|skills)(/index\.json)?(?=/\.well-known/)")


@pytest.fixture
async def client(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "skills"
    write_skill(folder, "csv-profile", {"scripts/run.sh": "echo", "skill.toml": 'scenes = ["office"]\n'})
    write_skill(folder, "open-notes")
    write_action(folder, "ask-somebody", tables='[executor]\nkind = "human"\n')
    settings = tmp_path / "server.toml"
    settings.write_text('[oauth2]\nissuer = "https://login.example.com"\naudience = "skills"\n[rpc]\nrun_code = true\n')
    application = app(
        [folder], blobs=tmp_path / "blobs", publisher="example-corp", access_log=False, configuration=settings
    )
    await application.startup()
    await application.publication.first(20)
    yield Caller(application)
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
    revision = client.application.publication.current
    paths = {route.path for route in client.application._services.routes}
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
        paths |= {f"/skills/{skill}", f"/skills/{skill}/files/SKILL.md"}
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
    answered: dict[str, str] = {template_of(path): path for path in POSTED}  # read by none
    for path in await everything(client):
        assert (await client.get(path, HOST)).status == 200, path
        answered.setdefault(template_of(path), path)
    assert set(answered) == set(PATHS)


async def test_methods_are_those_that_the_application_answers(client):
    by_template = {template_of(path): path for path in [*await everything(client), *POSTED]}
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


def test_the_document_is_openapi_and_holds_what_it_refers_to_and_nothing_more():
    whole = json.loads(json.dumps(document()))
    schemathesis.openapi.from_dict(whole).validate()
    components = {f"#/components/{kind}/{name}" for kind, named in whole["components"].items() for name in named}
    assert set(_references(whole)) == components
