"""A private package is invisible: on every route, the answers before and after its publication are the same bytes.

The requests come from the route table, so a new route is tested as soon as it is there.
"""

import json
import re
from typing import Any

import pytest
from tests.support.registry_site import RegistrySite, skill_archive

#: What a request may name of the private package, by the parameter of the path; other parameters are its name.
NAMES = ("hidden-gem", "acme.hidden-gem", "acme/hidden-gem", "acme")
VALUES = {
    "namespace": ("acme",),
    "account": ("ann",),
    "version": ("1.0.0", "latest"),
    "file": ("SKILL.md", "notes.txt"),
    "path": ("SKILL.md",),
    "scope": (*NAMES, "zebra-scene", "hidden-gem@1.0.0"),
    "skill": NAMES,
    "slug": NAMES,
}
REST = (
    "/packages/acme/open-notes",
    "/packages/acme/open-notes@1.0.0",
    "/publishers/acme",
    "/api/registry/packages/acme/open-notes",
    "/api/registry/packages/acme/open-notes/1.0.0",
    "/@acme/open-notes/versions.json",
    "/@acme/open-notes/.well-known/agent-skills/index.json",
    "/@acme/open-notes@1.0.0/.well-known/agent-skills/index.json",
    "/api/v1/skills/open-notes",
    "/v1/skills/acme--open-notes",
    "/@acme/hidden-gem/.well-known/agent-skills/index.json",
    "/@acme/hidden-gem@1.0.0/.well-known/agent-skills/index.json",
    "/@hidden-gem@1.0.0/.well-known/skills/index.json",
    "/@acme/.well-known/agent-skills/hidden-gem/SKILL.md",
    "/@acme/hidden-gem/.well-known/agent-skills/hidden-gem/notes.txt",
    "/.well-known/agent-skills/index.json/.well-known/agent-skills/index.json",
)
QUERIES = (
    "",
    "q=zebrafish",
    "facets=1",
    "type=knowledge",
    "scene=zebra-scene",
    "tag=zebra-cap",
    "limit=100",
    "after=hidden-gel",
    "slug=hidden-gem",
    "slug=hidden-gem&owner=acme",
    "slug=hidden-gem&hash=HEX",
    "prefix=hidden",
)
BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"keywords": ["zebrafish"]},
    {"scenes": ["zebra-scene"]},
    {"capabilities": ["zebra-cap"]},
    {"query": {"text": "zebrafish"}},
    {"jsonrpc": "2.0", "id": 1, "method": "list_skills", "params": {}},
    {"jsonrpc": "2.0", "id": 1, "method": "describe_skill", "params": {"name": "acme.hidden.gem"}},
    {"jsonrpc": "2.0", "id": 1, "method": "load_skill", "params": {"name": "acme.hidden.gem"}},
)
#: Routes that are not compared, and why.
LEFT_OUT = {
    "/metrics": "counts these requests; its numbers of skills are compared below",
    "/blobs": "keeps what is posted",
    "/executions.json": "states the time of its answer; it lists executions, of which there are none here",
}
CHANGING = {"date", "ratelimit-remaining", "ratelimit-reset"}


def targets(site, digest, *, is_every):
    """Return what is asked: each path of the table, and each query at the first path of a route, or at every path."""
    groups = [[path] for path in REST]
    for route in site.application.router.routes:
        template = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        if route.path in LEFT_OUT or "{rest}" in template:
            continue
        made = [template]
        for name in re.findall(r"\{(\w+)\}", template):
            artifacts = {"artifact": (f"{digest}.tar.gz", f"{digest}.md"), "archive": ("hidden-gem.tar.gz",)}
            values = artifacts.get(name) or VALUES.get(name, ("hidden-gem",))
            made = [path.replace(f"{{{name}}}", value, 1) for path in made for value in values]
        groups.append(made)
    plain = {path for made in groups for path in made}
    asked = plain if is_every else {made[0] for made in groups}
    queries = [query.replace("HEX", digest) for query in QUERIES]
    return sorted(plain | {f"{path}?{query}" for path in asked for query in queries})


async def answers(site, requested, by):
    """Return what each request is answered with; ``by`` is an account, or empty."""
    fields = {"Host": "skills.example.com", **({"Authorization": f"Bearer {site.tokens[by]}"} if by else {})}
    requests = [(target, "GET", b"") for target in requested]
    posted = [route.path for route in site.application.router.routes if "POST" in (route.methods or ())]
    requests += [
        (path, "POST", json.dumps(body).encode())
        for path in ("/api/skills/search", "/search", "/rpc", "/mcp")
        for body in BODIES
        if path in posted
    ]
    found: dict[Any, Any] = {}
    for target, method, body in requests:
        own = {**fields, "Content-Type": "application/json"} if body else fields
        answer = await site.request(target, own, method=method, body=body)
        kept = {name: value for name, value in answer.fields.items() if name not in CHANGING}
        found[method, target, body] = answer.status, kept, answer.body
    metrics = (await site.get("/metrics")).body.decode()
    found["metrics"] = re.findall(r"^skillwire_\w*(?:skill|package|version)\w*\{?[^\n]*$", metrics, re.MULTILINE)
    return found


@pytest.mark.parametrize("is_every", [False, pytest.param(True, marks=[pytest.mark.deep, pytest.mark.timeout(900)])])
async def test_no_answer_depends_on_a_private_package(tmp_path, is_every):
    settings = tmp_path / "server.toml"
    unlimited = "[rate_limit]\nprincipal_burst = 1000000\nanonymous_per_minute = 0\n"
    settings.write_text(f'[bridges]\nai_catalog = "1.0"\nagent_card = "1.0"\n{unlimited}')
    site = RegistrySite(tmp_path, configuration=settings)
    await site.account("acme")
    await site.account("eve")
    await site.publish("acme", skill_archive("open-notes", notes_txt="x"))
    state, opened = {"status": "deprecated", "reason": "old"}, "/packages/acme/open-notes"
    for path in (opened, f"{opened}/1.0.0"):
        assert (await site.call("PATCH", path, state, by="acme")).status == 200
    toml = 'access = "private"\nscenes = ["zebra-scene"]\ncapabilities = ["zebra-cap"]\n'
    archive = skill_archive("hidden-gem", text="A zebrafish.\n", skill_toml=toml, notes_txt="x")
    foreseen = (await site.publish("acme", archive, query="dry_run=1")).json()
    requested = targets(site, foreseen["digest"].removeprefix("sha256:"), is_every=is_every)
    site.look()
    before = {by: await answers(site, requested, by) for by in ("", "eve")}
    for found in before.values():
        assert sum(status == 200 for status, *_ in (one for key, one in found.items() if key != "metrics")) > 100
    assert (await site.publish("acme", archive)).status == 201
    for path in (opened, f"{opened}/1.0.0"):  # its successor's name is as private
        assert (await site.call("PATCH", path, {**state, "successor": "acme/hidden-gem"}, by="acme")).status == 200
    site.look()
    for by, found in before.items():
        after = await answers(site, requested, by)
        assert [key for key in found if found[key] != after[key]] == []
    own = await answers(site, requested, "acme")  # its members see it, so the requests do ask for it
    assert sum(own[key] != before["eve"][key] for key in own) > 50
    await site.parts.downloads.close()


class TestSuccessors:
    """A successor is named to callers that may know of it, also after its access changed."""

    PATHS = (
        "/api/registry/packages/ann/top",
        "/api/registry/packages/ann/top/1.0.0",
        "/api/registry/namespaces/ann",
        "/@ann/top/versions.json",
        "/@ann/.well-known/agent-skills/index.json",
        "/.well-known/agent-skills/index.json",
        "/packages/ann/top",
        "/packages/ann/top@1.0.0",
    )

    @pytest.fixture
    async def site(self, tmp_path):
        site = RegistrySite(tmp_path)
        for name in ("ann", "eve"):
            await site.account(name)
        await site.publish("ann", skill_archive("top"))
        await site.publish("ann", skill_archive("heir"))
        state = {"status": "deprecated", "successor": "ann/heir"}
        for path in ("/packages/ann/top", "/packages/ann/top/1.0.0"):
            assert (await site.call("PATCH", path, state, by="ann")).json()["status"] == state
        yield site
        await site.parts.downloads.close()

    async def named(self, site, by=None, name=b"ann/heir"):
        site.look()
        found = {path: await site.ask("GET", path, by=by) for path in self.PATHS}
        assert {answer.status for answer in found.values()} == {200}
        return {path for path, answer in found.items() if name in answer.body}

    async def test_it_is_named_while_its_access_allows_it(self, site):
        assert await self.named(site) == set(self.PATHS)
        for access, is_named in (("restricted", True), ("private", False), ("public", True), ("private", False)):
            assert (await site.call("PATCH", "/packages/ann/heir", {"access": access}, by="ann")).status == 200
            for by in (None, "eve"):
                assert await self.named(site, by) == set(self.PATHS if is_named else ()), (access, by)
            own = await self.named(site, "ann")
            assert {path for path in self.PATHS if not path.endswith("agent-skills/index.json")} <= own
        await site.call("PUT", "/packages/ann/heir/readers/eve", by="ann")
        assert "/packages/ann/top" in await self.named(site, "eve")

    @pytest.mark.parametrize("how", ["deleted", "narrowed by a version", "of a renamed namespace", "renamed"])
    async def test_it_is_followed_however_it_became_invisible(self, site, how):
        assert await self.named(site) == set(self.PATHS)
        if how == "deleted":
            await site.call("DELETE", "/packages/ann/heir", by="ann")
        elif how == "narrowed by a version":
            archive = skill_archive("heir", "2.0.0", skill_toml='access = "private"\n')
            assert (await site.publish("ann", archive)).status == 201
        elif how == "renamed":
            await site.publish("ann", skill_archive("other"))
            await site.call("PATCH", "/packages/ann/heir", {"renamed_to": "ann/other"}, by="ann")
            assert await self.named(site) == set(self.PATHS)
            await site.call("PATCH", "/packages/ann/other", {"access": "private"}, by="ann")
        else:
            await site.publish("eve", skill_archive("heir"))
            state = {"status": "deprecated", "successor": "eve/heir"}
            for path in ("/packages/ann/top", "/packages/ann/top/1.0.0"):
                await site.call("PATCH", path, state, by="ann")
            await site.call("POST", "/namespaces/eve/rename", {"to": "moved"}, by="eve")
            assert await self.named(site, name=b"eve/heir") == set(self.PATHS)
            await site.call("PATCH", "/packages/moved/heir", {"access": "private"}, by="eve")
        assert await self.named(site) | await self.named(site, name=b"eve/heir") == set()


async def test_keywords_find_members_their_private_packages_by_the_same_words_as_public_ones(tmp_path):
    site = RegistrySite(tmp_path)
    await site.account("ann")
    for name, access in (("open-notes", "public"), ("own-notes", "private")):
        manifest = f'access = "{access}"\ntags = ["dotted"]\ncapabilities = ["note-taking"]\nscenes = ["desk"]\n'
        version = '"1.0.0"\n  tags: "spectral, wide"\n  author: "Zoe"'
        await site.publish("ann", skill_archive(name, version, skill_toml=manifest))
    site.look()
    for word in ("notes", "useful", "spectral", "zoe", "dotted", "taking", "desk"):
        found = (await site.ask("POST", "/api/skills/search", {"keywords": [word]}, by="ann")).json()
        assert {one["name"] for one in found["skills"]} == {"Open Notes", "Own Notes"}, word
