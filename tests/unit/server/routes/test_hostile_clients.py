"""What hostile members and anonymous clients of a registry try, over each of its APIs."""

from unittest.mock import AsyncMock

import pytest
from tests.support.client_apis import HOSTED, HUB, host
from tests.support.registry_site import API, skill_archive, skill_files, tar_gz

from skillwire import limits
from skillwire.model.access import ANONYMOUS, Principal
from skillwire.model.package import PackageName

DEEP = b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/skills/search"),
        ("POST", f"{API}/setup"),
        ("POST", f"{API}/tokens"),
        ("DELETE", f"{HUB}/skills/notes"),
        ("POST", f"{HUB}/skills/-/upload-url"),
        ("POST", f"{HUB}/skills"),
    ],
)
async def test_deeply_nested_json_is_refused(site, method, path):
    assert (await site.ask(method, path, body=DEEP, by="ann")).status == 400


@pytest.mark.parametrize("encoding", ["undefined", "idna", "punycode", "utf-7", "zlib", "unicode_escape", "x" * 500])
async def test_a_form_in_a_strange_encoding_is_refused(site, encoding):
    name = b"a" * 70 + b"\xff"
    body = b'--x\r\nContent-Disposition: form-data; name="files[]"; filename="%s"\r\n\r\nhi\r\n--x--\r\n' % name
    fields = {"Content-Type": f"multipart/form-data; boundary=x; charset={encoding}"}
    assert (await site.ask("POST", HOSTED, body=body, fields=fields, by="ann")).status in {400, 422}


async def test_a_list_of_files_is_read_for_publishers_alone_and_has_a_bound(site):
    body = b" " * int(limits.REGISTRY_FILE_LIST_BYTES + 1)
    reader = await site.token("ann", "read")
    for by, status in ((None, 401), (reader, 403), ("ann", 413)):
        assert (await site.ask("POST", f"{HUB}/skills", body=body, by=by)).status == status


async def test_the_path_of_an_announced_file_has_a_bound(site):
    document = {"path": "a" * (limits.ARCHIVE_PATH_BYTES + 1), "size": 0, "sha256": "0" * 64}
    assert (await site.ask("POST", f"{HUB}/skills/-/upload-url", document, by="ann")).status == 400


class TestNamespaces:
    async def test_that_of_another_account_is_taken(self, site):
        await site.call("POST", "/namespaces", {"name": "mine"}, by="ann")
        assert (await site.call("POST", "/namespaces", {"name": "bob"}, by="ann")).status == 409
        assert (await site.call("POST", "/namespaces/mine/rename", {"to": "bob"}, by="ann")).status == 409
        assert (await site.publish("bob")).status == 201

    async def test_a_proof_does_not_follow_to_another_name(self, site):
        await site.call("POST", "/namespaces", {"name": "mine"}, by="ann")
        await site.call("POST", "/namespaces/mine/proof", {"kind": "operator"}, by="root")
        renamed = await site.call("POST", "/namespaces/mine/rename", {"to": "famous"}, by="ann")
        assert renamed.json()["proof"] == {"kind": "", "domain": "", "at": 0.0}
        assert (await site.call("GET", "/namespaces/famous")).json()["proof"]["kind"] == ""


async def test_who_makes_a_namespace_with_a_private_package_is_answered(site):
    private = skill_files(skill_toml='access = "private"\n')
    assert (await host(site, private, by="ann")).status == 200
    apm = await site.ask("PUT", "/v1/packages/bob/notes/versions/1.0.0", body=tar_gz(private), by="bob")
    assert apm.status == 201


async def test_a_private_package_hides_none_of_its_name(site):
    index = "/.well-known/agent-skills/index.json"
    for made in ("ann", "bob"):
        toml = 'access = "private"\n' if made == "ann" else ""
        assert (await site.publish(made, skill_archive(text=f"By {made}.\n", skill_toml=toml))).status == 201
        site.look()
    for by in (None, "ann", "bob"):
        fields = {"Authorization": f"Bearer {site.tokens[by]}"} if by else {}
        assert [one["name"] for one in (await site.get(index, fields)).json()["skills"]] == ["notes"]
        assert b"By bob." in (await site.get("/.well-known/agent-skills/notes/SKILL.md", fields)).body
    assert b"By ann." in (await site.ask("GET", "/@ann/.well-known/agent-skills/notes/SKILL.md", by="ann")).body


async def test_a_package_has_a_bounded_number_of_versions(site, monkeypatch):
    monkeypatch.setattr(limits, "REGISTRY_PACKAGE_BYTES", 500)
    answers = [await site.publish("ann", skill_archive(version=f"1.0.{number}")) for number in range(9)]
    assert [one.status for one in answers[:1]] == [201]
    assert (answers[-1].status, answers[-1].json()["error"]["code"]) == (409, "PACKAGE_CLOSED")
    assert (await site.publish("ann", skill_archive(version="1.0.0"))).status == 200  # it is there


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("carl", frozenset({"carl/*"}))], ids=["anonymous", "carl"])
async def test_private_packages_cost_a_list_one_read(site, monkeypatch, principal):
    for number in range(9):
        await site.publish("ann", skill_archive(f"a{number}", skill_toml='access = "private"\n'))
    await site.publish("bob", skill_archive("zoo"))
    monkeypatch.setattr(limits, "REGISTRY_PAGE", 2)
    find = AsyncMock(side_effect=site.store.find_packages)
    monkeypatch.setattr(site.store, "find_packages", find)
    found, following = await site.registry.find(principal, "", PackageName("", ""), 1)
    assert ([one.name.name for one in found], following, find.await_count) == (["zoo"], None, 1)


async def test_a_token_ends_within_a_time_that_can_be_shown(site):
    for seconds in (1e308, 1e11, -1, 0):
        document = {"name": "x", "scopes": ["read"], "expires_in": seconds}
        assert (await site.call("POST", "/tokens", document, by="ann")).status == 400
