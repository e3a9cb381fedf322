"""The registry's own API: each route, who may use it, and what it answers."""

import asyncio
import hashlib
import uuid
from typing import Any

import pytest
from tests.support.openapi import check_answer, check_openapi
from tests.support.publishing import Asgi
from tests.support.registry_site import RegistrySite, skill_archive, skill_files, tar_gz, zipped

from skillwire import limits
from skillwire.server import create_app, openapi


def code_of(answer):
    return answer.json()["error"]["code"]


class TestAccounts:
    async def test_first_operator_is_made_once_with_the_code(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
        site = RegistrySite(tmp_path)
        code = await site.parts.accounts.prepare_first_operator()
        assert (await site.call("GET", "")).json()["needs_setup"]
        wrong = await site.call("POST", "/setup", {"code": "x", "account": "ann"})
        assert (wrong.status, code_of(wrong)) == (403, "PERMISSION_DENIED")
        malformed = await site.call("POST", "/setup", {"code": code, "account": "An N"})
        assert (malformed.status, code_of(malformed)) == (400, "ACCOUNT_FORM")
        made = await asyncio.gather(*[site.call("POST", "/setup", {"code": code, "account": "ann"}) for _ in range(3)])
        first, *others = sorted(one.status for one in made)
        assert (first, {403, 409}.issuperset(others)) == (201, True)
        token = next(one.json()["token"] for one in made if one.status == 201)
        assert not (await site.call("GET", "")).json()["needs_setup"]
        late = await site.call("POST", "/setup", {"code": "x", "account": "ann"})
        assert (late.status, code_of(late)) == (409, "OPERATOR_EXISTS")
        assert await site.parts.accounts.prepare_first_operator() == ""
        assert (await site.call("GET", "/whoami", by=token)).json() == {
            "account": "ann",
            "operator": True,
            "scopes": ["admin", "publish", "read"],
            "namespaces": {},
        }

    async def test_without_an_account_there_is_no_answer_about_one(self, site):
        for method, path in (("GET", "/whoami"), ("GET", "/tokens"), ("GET", "/audit"), ("DELETE", "/tokens/x")):
            answer = await site.call(method, path)
            assert (answer.status, code_of(answer)) == (401, "AUTH_REQUIRED")
            assert answer.fields["www-authenticate"].startswith("Bearer")

    async def test_tokens_are_made_shown_once_listed_and_revoked(self, site):
        made = await site.call("POST", "/tokens", {"name": "ci", "scopes": ["read"], "expires_in": 60}, by="ann")
        assert made.status == 201
        secret, number = made.json()["token"], made.json()["id"]
        assert made.json()["warnings"] == []
        limited = {"name": "x", "scopes": ["read", "namespace:ann", "namespace:nonexist"]}
        warnings = (await site.call("POST", "/tokens", limited, by="ann")).json()["warnings"]
        assert warnings == ["the namespace nonexist of the token's scopes does not exist yet"]
        listed = await site.call("GET", "/tokens", by="ann")
        assert secret not in listed.body.decode()
        row = next(one for one in listed.json()["tokens"] if one["id"] == number)
        assert (row["name"], row["scopes"], row["expires"] - row["created"]) == ("ci", ["read"], 60)
        assert (await site.call("GET", "/whoami", by=secret)).status == 200
        assert (await site.call("DELETE", f"/tokens/{number}", by="bob")).status == 404
        assert (await site.call("DELETE", f"/tokens/{number}", by="ann")).status == 204
        assert (await site.call("GET", "/whoami", by=secret)).status == 401

    async def test_no_token_makes_one_that_outlives_it(self, site):
        made = await site.call("POST", "/tokens", {"name": "ci", "scopes": ["admin"], "expires_in": 60}, by="ann")
        short = made.json()["token"]
        longer = await site.call("POST", "/tokens", {"name": "x", "scopes": ["read"], "expires_in": 90}, by=short)
        assert (longer.status, code_of(longer)) == (403, "PERMISSION_DENIED")
        for expires in ({}, {"expires_in": 5}):
            answer = await site.call("POST", "/tokens", {"name": "x", "scopes": ["read"], **expires}, by=short)
            assert answer.status == 201
        *_, own, first, second = (await site.call("GET", "/tokens", by="ann")).json()["tokens"]
        assert second["expires"] < first["expires"] <= own["expires"] + 0.01
        kept = await site.call("POST", "/tokens", {"name": "browser sign-in", "scopes": ["read"]}, by="ann")
        assert (kept.status, code_of(kept)) == (400, "TOKEN_FORM")

    async def test_tokens_are_listed_page_by_page(self, site):
        made = [(await site.token("ann")).split("_")[1] for _ in range(3)]
        rows: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": ""}
        while page["next"] is not None:
            page = (await site.call("GET", f"/tokens?limit=2&after={page['next']}", by="ann")).json()
            assert len(page["tokens"]) <= 2
            rows += page["tokens"]
        assert {one["id"] for one in rows} >= set(made)
        assert len(rows) == len({one["id"] for one in rows})
        assert (await site.call("GET", "/tokens?after=x", by="ann")).status == 400

    @pytest.mark.parametrize("scopes", [("read",), ("publish",), ("admin", "namespace:ann")])
    async def test_a_token_that_may_revoke_none_is_shown_itself(self, site, scopes):
        secret = await site.token("ann", *scopes)
        listed = (await site.call("GET", "/tokens", by=secret)).json()
        assert [one["id"] for one in listed["tokens"]] == [secret.split("_")[1]]
        assert (await site.call("DELETE", f"/tokens/{site.tokens['ann'].split('_')[1]}", by=secret)).status == 403

    async def test_operators_make_accounts_and_see_all_tokens(self, site):
        asked = {"name": "eve's", "account": "eve"}
        assert (await site.call("POST", "/tokens", asked, by="ann")).status == 403
        made = await site.call("POST", "/tokens", asked, by="root")
        assert (made.status, made.json()["account"]) == (201, "eve")
        assert (await site.call("GET", "/whoami", by=made.json()["token"])).json()["account"] == "eve"
        accounts = {one["account"] for one in (await site.call("GET", "/tokens", by="root")).json()["tokens"]}
        assert accounts == {"ann", "bob", "root", "eve"}

    async def test_operators_list_and_change_accounts(self, site):
        for method, path, asked in (("GET", "", None), ("PATCH", "/bob", {"operator": True}), ("DELETE", "/bob", None)):
            assert (await site.call(method, f"/accounts{path}", asked, by="ann")).status == 403
        rows: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": ""}
        while page["next"] is not None:
            page = (await site.call("GET", f"/accounts?limit=2&after={page['next']}", by="root")).json()
            rows += page["accounts"]
        assert [(one["account"], one["operator"]) for one in rows] == [("ann", False), ("bob", False), ("root", True)]
        last = await site.call("PATCH", "/accounts/root", {"operator": False}, by="root")
        assert (last.status, code_of(last)) == (409, "LAST_OPERATOR")
        assert (await site.call("PATCH", "/accounts/ann", {"operator": True}, by="root")).status == 204
        assert (await site.call("GET", "/whoami", by="ann")).json()["operator"]
        assert (await site.call("DELETE", "/accounts/ann", by="root")).status == 204
        assert (await site.call("GET", "/whoami", by="ann")).status == 401
        absent = await site.call("DELETE", "/accounts/carl", by="root")
        assert (absent.status, code_of(absent)) == (404, "ACCOUNT_NOT_FOUND")

    async def test_changes_are_in_the_audit_log_with_their_request(self, site):
        fields = {"X-Request-Id": "r-17"}
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann", fields=fields)
        await site.call("POST", "/namespaces", {"name": "other"}, by="bob")
        every = (await site.call("GET", "/audit", by="root")).json()["entries"]
        assert [one["number"] for one in every] == list(range(1, len(every) + 1))
        made = every[-2]
        assert {key: made[key] for key in ("account", "action", "target", "address", "request_id")} == {
            "account": "ann",
            "action": "namespace.create",
            "target": "acme",
            "address": "192.0.2.7",
            "request_id": "r-17",
        }
        own = (await site.call("GET", "/audit", by="ann")).json()["entries"]
        assert [one["target"] for one in own] == ["acme"]
        page = (await site.call("GET", "/audit?after=1&limit=2", by="root")).json()
        assert ([one["number"] for one in page["entries"]], page["next"]) == ([2, 3], 3)
        await site.account("eve")
        assert (await site.call("GET", "/audit", by="eve")).status == 403
        assert (await site.call("GET", "/audit?after=x", by="root")).status == 400


class TestNamespaces:
    async def test_are_made_listed_renamed_and_never_given_out_again(self, site):
        made = await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        assert (made.status, made.json()["name"], made.json()["proof"]["kind"]) == (201, "acme", "")
        again = await site.call("POST", "/namespaces", {"name": "acme"}, by="bob")
        assert (again.status, code_of(again)) == (409, "NAMESPACE_TAKEN")
        assert (await site.call("POST", "/namespaces", {"name": "local"}, by="ann")).status == 409
        assert (await site.call("POST", "/namespaces", {"name": "A b"}, by="ann")).status == 400
        renamed = await site.call("POST", "/namespaces/acme/rename", {"to": "apex"}, by="ann")
        assert (renamed.status, renamed.json()["name"]) == (200, "apex")
        moved = await site.call("GET", "/namespaces/acme?limit=3")
        assert (moved.status, moved.fields["location"]) == (308, "/api/registry/namespaces/apex?limit=3")
        assert (await site.call("POST", "/namespaces", {"name": "acme"}, by="bob")).status == 409
        again = await site.call("POST", "/namespaces/acme/rename", {"to": "ajax"}, by="ann")
        assert again.json()["name"] == "ajax"
        assert (await site.call("GET", "/namespaces/apex")).status == 308
        assert (await site.call("GET", "/namespaces/ajax", by="ann")).json()["members"] == {"ann": "owner"}
        listed = (await site.call("GET", "/namespaces")).json()
        assert ([one["name"] for one in listed["namespaces"]], listed["next"]) == (["ajax"], None)

    async def test_a_page_names_where_the_next_one_begins(self, site):
        for name in ("c", "a", "b"):
            await site.call("POST", "/namespaces", {"name": name}, by="ann")
        first = (await site.call("GET", "/namespaces?limit=2")).json()
        assert ([one["name"] for one in first["namespaces"]], first["next"]) == (["a", "b"], "b")
        last = (await site.call("GET", "/namespaces?limit=2&after=b")).json()
        assert ([one["name"] for one in last["namespaces"]], last["next"]) == (["c"], None)
        for bad in ("0", "101", "x", "-1", "99999999999"):
            assert (await site.call("GET", f"/namespaces?limit={bad}")).status == 400

    async def test_members_come_and_go_and_the_last_owner_stays(self, site):
        await site.call("POST", "/namespaces", {"name": "acme"}, by="ann")
        path = "/namespaces/acme/members/bob"
        assert (await site.call("PUT", path, {"role": "publisher"}, by="bob")).status == 403
        assert (await site.call("PUT", path, {"role": "king"}, by="ann")).status == 400
        assert (await site.call("PUT", path, {"role": "publisher"}, by="ann")).status == 204
        assert (await site.call("PUT", "/namespaces/acme/members/eve", {"role": "owner"}, by="ann")).status == 404
        assert (await site.call("GET", "/namespaces/acme")).json().get("members") is None
        members = (await site.call("GET", "/namespaces/acme", by="bob")).json()["members"]
        assert members == {"ann": "owner", "bob": "publisher"}
        assert (await site.call("DELETE", path, by="ann")).status == 204
        entries = [one.change for one in await site.store.audit(0, 99)][-2:]
        assert [(one.action, one.target, one.details) for one in entries] == [
            ("member.set", "acme", {"account": "bob", "role": "publisher"}),
            ("member.remove", "acme", {"account": "bob"}),
        ]
        assert len({uuid.UUID(one.request_id) for one in entries}) == 2, "each request has an ID of its own"
        refused = await site.call("PUT", path, {"role": "publisher"}, by="bob")
        assert "bob needs the role owner in acme" in refused.json()["error"]["message"]
        assert "skillwire registry member add acme bob owner" in refused.json()["error"]["details"]["fix"]
        await site.call("PUT", path, {"role": "reader"}, by="ann")
        assert (await site.call("DELETE", path, by="bob")).status == 204, "a member may leave"
        assert (await site.call("DELETE", path, by="bob")).status == 403
        last = await site.call("DELETE", "/namespaces/acme/members/ann", by="ann")
        assert (last.status, code_of(last)) == (400, "LAST_OWNER")


class TestRightsThatEndBeforeTheBodyCame:
    async def test_a_token_that_was_revoked_publishes_nothing(self, site):
        made = (await site.call("POST", "/tokens", {"name": "ci", "scopes": ["publish"]}, by="ann")).json()

        async def revoke():
            assert (await site.call("DELETE", f"/tokens/{made['id']}", by="ann")).status == 204

        refused = await site.publish("ann", by=made["token"], meanwhile=revoke)
        assert (refused.status, code_of(refused)) == (401, "AUTH_REQUIRED")
        assert refused.fields["www-authenticate"].startswith("Bearer")
        assert (await site.call("GET", "/namespaces/ann")).status == 404

    async def test_a_member_who_was_removed_changes_nothing(self, site):
        await site.publish("ann")
        path, change = "/namespaces/ann/members/bob", {"access": "private"}

        async def remove():
            assert (await site.call("DELETE", path, by="ann")).status == 204

        for request in (
            lambda: site.publish("ann", skill_archive("memo"), by="bob", meanwhile=remove),
            lambda: site.call("PATCH", "/packages/ann/notes", change, by="bob", meanwhile=remove),
            lambda: site.call("PUT", path, {"role": "owner"}, by="bob", meanwhile=remove),
        ):
            assert (await site.call("PUT", path, {"role": "owner"}, by="ann")).status == 204
            refused = await request()
            assert (refused.status, code_of(refused)) == (403, "PERMISSION_DENIED")
        assert (await site.call("GET", "/namespaces/ann", by="ann")).json()["members"] == {"ann": "owner"}
        assert (await site.call("GET", "/packages/ann/notes")).json()["access"] == "public"
        assert (await site.call("GET", "/packages/ann/memo")).status == 404


class TestPublishing:
    async def test_a_version_is_made_once_and_described_as_it_is(self, site):
        archive = skill_archive(a_txt="hello")
        made = await site.publish("ann", archive)
        assert made.status == 201
        told = made.json()
        assert [one["path"] for one in told["files"]] == ["SKILL.md", "a.txt"]
        assert {key: told[key] for key in ("package", "version", "status", "access")} == {
            "package": "ann/notes",
            "version": "1.0.0",
            "status": "created",
            "access": "public",
        }
        again = await site.publish("ann", archive)
        assert (again.status, again.json()["status"]) == (200, "repeated")
        other = await site.publish("ann", skill_archive(a_txt="other"))
        assert (other.status, code_of(other)) == (409, "VERSION_EXISTS")
        package = (await site.call("GET", "/packages/ann/notes")).json()
        assert (package["latest"], package["access"], package["status"]) == ("1.0.0", "public", {"status": "active"})
        version = (await site.call("GET", "/packages/ann/notes/1.0.0")).json()
        assert (version["digest"], version["uploaded"], version["publisher"]) == (
            told["digest"],
            told["uploaded"],
            "ann",
        )
        assert version["files"] == told["files"]
        artifact = await site.request(version["url"].removeprefix("http://127.0.0.1:8000"))
        assert (artifact.status, len(artifact.body)) == (200, version["size"])
        assert artifact.fields["cache-control"] == "public, max-age=31536000, immutable"

    async def test_a_version_of_the_same_precedence_is_refused_with_the_other_one(self, site):
        await site.publish("ann", query="version=1.0.0%2Bz")
        for query in ("version=1.0.0", "version=1.0.0&dry_run=1"):
            refused = await site.publish("ann", query=query)
            assert (refused.status, code_of(refused)) == (409, "VERSION_EXISTS")
            assert refused.json()["error"]["message"] == (
                "ann/notes 1.0.0 differs only in build metadata, which does not count, from the published 1.0.0+z"
            )

    async def test_a_dry_run_tells_the_same_and_stores_nothing(self, site):
        checked = await site.publish("ann", query="dry_run=1")
        assert (checked.status, checked.json()["status"]) == (200, "checked")
        assert (await site.call("GET", "/namespaces/ann")).status == 404
        made = (await site.publish("ann")).json()
        assert {**checked.json(), "status": "created"} == made
        assert (await site.publish("ann", skill_archive(text="Other.\n"), query="dry_run=1")).status == 409
        assert (await site.publish("ann", query="dry_run=1")).json() == {**made, "status": "repeated"}

    @pytest.mark.parametrize(
        ("value", "status"), [("1", 200), ("true", 200), ("0", 201), ("false", 201), ("", 400), ("no", 400)]
    )
    async def test_a_dry_run_is_asked_for_in_plain_words(self, site, value, status):
        answer = await site.publish("ann", query=f"dry_run={value}")
        assert answer.status == status
        if status == 400:
            error = answer.json()["error"]
            assert (error["code"], error["details"]["fix"][:16]) == ("QUERY", "Write dry_run=1 ")
        assert (await site.store.statistics(with_private=True))["versions"] == (status == 201)

    async def test_a_misspelt_parameter_is_refused_with_those_that_exist(self, site):
        for refused, known in (
            (await site.publish("ann", query="dryrun=1"), "version, name, dry_run, upload"),
            (await site.call("GET", "/namespaces?limt=5"), "after, limit"),
        ):
            assert (refused.status, code_of(refused)) == (400, "QUERY")
            assert refused.json()["error"]["details"]["fix"] == f"Correct it; the parameters are {known}."
        assert (await site.store.statistics(with_private=True))["versions"] == 0
        assert (await site.call("HEAD", "/namespaces?limt=5")).status == 400
        assert (await site.call("HEAD", "/namespaces?limit=5")).status == 200

    async def test_a_dry_run_foresees_a_full_package(self, site, monkeypatch):
        await site.publish("ann")
        monkeypatch.setattr(limits, "REGISTRY_PACKAGE_BYTES", 1)
        for query in ("dry_run=1&version=2.0.0", "version=2.0.0"):
            full = await site.publish("ann", query=query)
            assert (full.status, code_of(full)) == (409, "PACKAGE_CLOSED")

    async def test_an_account_takes_a_bounded_number_of_names(self, site, monkeypatch):
        monkeypatch.setattr(limits, "REGISTRY_NAMES", 2)
        answers = [await site.call("POST", "/namespaces", {"name": f"space-{n}"}, by="ann") for n in range(3)]
        assert [(one.status, code_of(one) if one.status > 201 else "") for one in answers] == [
            (201, ""),
            (201, ""),
            (409, "NAMESPACES_FULL"),
        ]
        renamed = await site.call("POST", "/namespaces/space-1/rename", {"to": "space-2"}, by="ann")
        assert code_of(renamed) == "NAMESPACES_FULL"
        assert (await site.publish("ann")).status == 201, "its own name is not counted"
        assert (await site.call("POST", "/namespaces", {"name": "more"}, by="root")).status == 201

    @pytest.mark.parametrize("pack", [tar_gz, zipped])
    @pytest.mark.parametrize("folder", ["", "notes"])
    async def test_any_archive_gives_the_same_artifact(self, site, pack, folder):
        made = await site.publish("ann", pack(skill_files(a_txt="hello"), folder))
        plain = (await site.publish("bob", skill_archive(a_txt="hello"))).json()
        assert (made.status, made.json()["digest"]) == (201, plain["digest"])

    @pytest.mark.parametrize(
        ("archive", "query", "status", "code"),
        [
            (b"junk", "", 400, "ARCHIVE_MALFORMED"),
            (b"", "", 400, "ARCHIVE_MALFORMED"),
            (tar_gz({"README.md": "x"}), "", 422, "NO_SKILL_MD"),
            (tar_gz({"../SKILL.md": "x"}), "", 422, "PATH_TRAVERSAL"),
            (tar_gz(skill_files(), "memos"), "", 422, "SKILL_INVALID"),
            (tar_gz(skill_files(), "notes"), "name=memos", 422, "NO_SKILL_MD"),
            (tar_gz({**skill_files("a"), "b/SKILL.md": "x", "a/SKILL.md": "x"}), "name=b", 422, "SKILL_INVALID"),
            (skill_archive(), "name=memos", 422, "SKILL_INVALID"),
            (skill_archive(), "version=one", 400, "PACKAGE_VERSION"),
            (skill_archive(skill_toml='id = "other/notes"\n'), "", 400, "IDENTIFIER_FOREIGN"),
        ],
    )
    async def test_what_is_wrong_is_refused_with_the_reason_and_nothing_is_stored(
        self, site, archive, query, status, code
    ):
        refused = await site.publish("ann", archive, query=query)
        assert (refused.status, code_of(refused)) == (status, code)
        assert refused.json()["error"]["details"]["fix"]
        assert (await site.store.statistics(with_private=True))["versions"] == 0

    @pytest.mark.parametrize(
        ("archive", "place", "fix"),
        [
            (b"", "", "Pack the skill's folder as .tar.gz or .zip, or"),
            (skill_archive()[:-20], "", "Pack the skill's folder as .tar.gz or .zip, or"),
            (tar_gz({"README.md": "x"}), "SKILL.md", "Pack the content"),
            (zipped({**skill_files(), "a/../b": "x"}), "a/../b", "Publish the file"),
            (tar_gz({**skill_files(), "b": "x", "B": "x"}), "B", "Rename one"),
        ],
    )
    async def test_a_refused_archive_has_a_finding_with_its_path_and_a_fix_for_its_sender(
        self, site, archive, place, fix
    ):
        error = (await site.publish("ann", archive)).json()["error"]
        (finding,) = error["details"]["findings"]
        assert (finding["code"], finding["message"], finding["level"]) == (error["code"], error["message"], "error")
        assert finding["place"] == place
        assert finding["fix"] == error["details"]["fix"]
        assert finding["fix"].startswith(fix)

    async def test_a_refused_skill_names_every_finding_with_its_place(self, site):
        refused = await site.publish("ann", tar_gz({"SKILL.md": "---\nname: Notes\nlicence: MIT\n---\n"}))
        findings = refused.json()["error"]["details"]["findings"]
        assert {one["level"] for one in findings} >= {"error"}
        assert all(one["code"] and one["message"] and one["fix"] and "SKILL.md" in one["place"] for one in findings)

    async def test_who_may_not_publish_is_told_before_the_body_is_read(self, site):
        await site.publish("ann")
        for token, status in ((None, 401), ("bob", 403)):
            scope = site.scope("/api/registry/namespaces/ann/packages", method="POST")
            if token:
                scope["headers"] = [(b"authorization", f"Bearer {site.tokens[token]}".encode())]
            sent: list[Any] = []

            async def receive():
                pytest.fail("the body was read")

            async def send(message, sent=sent):
                sent.append(message)

            await site.application(scope, receive, send)
            assert sent[0]["status"] == status
        missing = await site.publish("nowhere", by="ann")
        assert (missing.status, code_of(missing)) == (404, "NAMESPACE_NOT_FOUND")

    async def test_a_body_has_a_bound_and_no_coding(self, site):
        coded = await site.call(
            "POST", "/namespaces/ann/packages", by="ann", body=b"x", fields={"Content-Encoding": "gzip"}
        )
        assert (coded.status, code_of(coded)) == (415, "MEDIA_TYPE")
        large = await site.publish("ann", bytes(limits.ARCHIVE_BYTES + 1))
        assert (large.status, code_of(large)) == (413, "ARCHIVE_SIZE")
        request = await site.call("POST", "/namespaces", by="ann", body=b" " * (limits.REGISTRY_REQUEST_BYTES + 1))
        assert (request.status, code_of(request)) == (413, "LIMIT_SIZE")
        for body, code in ((b"{", "JSON_SYNTAX"), (b"\xff", "JSON_SYNTAX"), (b"{}", "QUERY"), (b'{"x":1}', "QUERY")):
            answer = await site.call("POST", "/namespaces", by="ann", body=body)
            assert (answer.status, code_of(answer)) == (400, code)

    @pytest.mark.parametrize(
        ("path", "body", "message", "place"),
        [
            ("/packages/ann/notes", {"access": "publicx"}, "access is one of public, restricted, private", "/access"),
            (
                "/namespaces/ann/members/bob",
                {"role": "x"},
                "role is one of owner, maintainer, publisher, reader",
                "/role",
            ),
            ("/namespaces/ann/proof", {"kind": "x"}, "kind is one of dns, file, operator", "/kind"),
            ("/namespaces", {"name": 1}, "name has to be a text, not a whole number", "/name"),
            ("/namespaces", {"nome": "x", "name": "y"}, "there is no field nome", "/nome"),
            ("/tokens", {"name": "x", "scopes": ["read", 1]}, "scopes/1 has to be a text", "/scopes/1"),
        ],
    )
    async def test_an_invalid_body_is_explained_with_its_place(self, site, path, body, message, place):
        method = {"/packages/ann/notes": "PATCH", "/namespaces/ann/members/bob": "PUT"}.get(path, "POST")
        error = (await site.call(method, path, body, by="ann")).json()["error"]
        assert (error["code"], error["details"]["place"]) == ("QUERY", place)
        assert error["message"].startswith(f"the request body is invalid: {message}")
        assert error["details"]["fix"].startswith("Correct it; its fields are ")

    async def test_each_refusal_has_a_fix_for_a_client_of_http(self, site):
        archive = bytes(limits.ARCHIVE_BYTES + 1)
        answers = {
            "LIMIT_SIZE": await site.call(
                "POST", "/namespaces", by="ann", body=b" " * (limits.REGISTRY_REQUEST_BYTES + 1)
            ),
            "ARCHIVE_SIZE": await site.publish("ann", archive),
            "NOT_FOUND": await site.call("GET", "/nothing"),
            "METHOD_NOT_ALLOWED": await site.call("DELETE", "/whoami"),
            "URL_TOO_LONG": await site.call("GET", f"/{'x' * limits.URL_LENGTH}"),
            "JSON_SYNTAX": await site.call("POST", "/namespaces", by="ann"),
        }
        for code, answer in answers.items():
            assert (code_of(answer), bool(answer.json()["error"]["details"]["fix"])) == (code, True)
        empty = answers["JSON_SYNTAX"].json()["error"]
        assert (empty["message"], empty["details"]["fix"]) == ("the request body is empty", "Send one JSON object.")

    async def test_of_many_that_publish_one_version_one_makes_it(self, site):
        archives = [skill_archive(text=f"Do {number % 4}.\n") for number in range(32)]
        answers = await asyncio.gather(*[site.publish("ann", archive) for archive in archives])
        assert sorted({one.status for one in answers}) == [200, 201, 409]
        assert [one.status for one in answers].count(201) == 1
        first = next(number for number, one in enumerate(answers) if one.status == 201)
        for number, one in enumerate(answers):
            if one.status != 201:
                assert one.status == (200 if number % 4 == first % 4 else 409)
        assert (await site.store.statistics(with_private=True))["versions"] == 1

    async def test_a_token_of_a_namespace_follows_its_renames(self, site):
        await site.call("POST", "/namespaces", {"name": "space-1"}, by="ann")
        token = await site.token("ann", "publish", "admin", "namespace:space-1")
        private = skill_archive(skill_toml='access = "private"\n')
        assert (await site.publish("space-1", private, by=token)).status == 201
        for old, new in (("space-1", "space-2"), ("space-2", "space-3")):
            await site.call("POST", f"/namespaces/{old}/rename", {"to": new}, by="ann")
        for number, name in enumerate(("space-1", "space-3")):
            assert (await site.publish(name, skill_archive(f"memo-{number}"), by=token)).status == 201, name
        assert (await site.call("GET", "/packages/space-3/notes", by=token)).status == 200
        entries = (await site.call("GET", "/audit", by=token)).json()["entries"]
        assert {one["target"].partition("/")[0] for one in entries} >= {"space-1", "space-3"}
        renames = [one["target"] for one in entries if one["action"] == "namespace.rename"]
        assert renames == ["space-1", "space-2"]
        for limit in ("space-1", "space-3"):
            document = {"name": "less", "scopes": ["publish", f"namespace:{limit}"]}
            made = (await site.call("POST", "/tokens", document, by=token)).json()["token"]
            assert (await site.publish("space-3", skill_archive(f"from-{limit}"), by=made)).status == 201
        refused = await site.publish("ann", by=token)
        assert (refused.status, "does not reach ann;" in refused.body.decode()) == (403, True)

    async def test_a_renamed_namespace_is_published_to_under_its_new_name(self, site):
        await site.publish("ann")
        await site.call("POST", "/namespaces/ann/rename", {"to": "apex"}, by="ann")
        again = await site.publish("ann", skill_archive(version="1.1.0"))
        assert (again.status, again.json()["package"]) == (201, "apex/notes")
        moved = await site.call("GET", "/packages/ann/notes/1.1.0/download?x=1")
        assert (moved.status, moved.fields["location"]) == (
            308,
            "/api/registry/packages/apex/notes/1.1.0/download?x=1",
        )


class TestStates:
    async def test_a_yanked_version_is_not_the_latest_and_can_be_fetched(self, site):
        await site.publish("ann")
        await site.publish("ann", skill_archive(version="1.1.0"))
        path = "/packages/ann/notes/1.1.0"
        assert (await site.call("PATCH", path, {"status": "yanked"}, by="ann")).status == 400
        assert (await site.call("PATCH", path, {"status": "yanked", "reason": "x"}, by="bob")).status == 403
        yanked = await site.call("PATCH", path, {"status": "yanked", "reason": "loses data"}, by="ann")
        assert yanked.json()["status"] == {"status": "yanked", "reason": "loses data"}
        package = (await site.call("GET", "/packages/ann/notes")).json()
        assert package["latest"] == "1.0.0"
        assert [one["status"]["status"] for one in package["versions"]] == ["yanked", "active"]
        assert (await site.call("GET", f"{path}/download")).status == 200
        assert (await site.call("PATCH", path, {"status": "archived"}, by="ann")).status == 400

    async def test_quarantine_is_for_operators_and_refuses_downloads_with_the_reason(self, site):
        await site.publish("ann")
        state = {"status": "quarantined", "reason": "steals keys"}
        for path in ("/packages/ann/notes/1.0.0", "/packages/ann/notes"):
            assert (await site.call("PATCH", path, state, by="ann")).status == 403
            assert (await site.call("PATCH", path, state, by="root")).status == 200
            refused = await site.call("GET", "/packages/ann/notes/1.0.0/download", by="root")
            assert (refused.status, code_of(refused)) == (403, "QUARANTINED")
            assert "steals keys" in refused.json()["error"]["message"]
            assert (await site.call("GET", path)).json()["status"]["reason"] == "steals keys"
            assert (await site.call("PATCH", path, {"status": "active"}, by="ann")).status == 403
            assert (await site.call("PATCH", path, {"status": "active"}, by="root")).status == 200
        assert (await site.call("GET", "/packages/ann/notes/1.0.0/download")).status == 200

    @pytest.mark.parametrize("path", ["/packages/ann/notes/1.0.0", "/packages/ann/notes"])
    async def test_a_quarantine_names_other_packages_of_the_same_bytes(self, site, path):
        await site.publish("ann")
        await site.publish("bob")
        state = {"status": "quarantined", "reason": "steals keys"}
        answer = (await site.call("PATCH", path, state, by="root")).json()
        assert (answer["copies"], answer["more_copies"]) == (["bob/notes"], False)
        assert "copies" not in (await site.call("PATCH", path, {"status": "active"}, by="root")).json()
        await site.call("PATCH", "/packages/bob/notes/1.0.0", state, by="root")
        assert (await site.call("PATCH", path, state, by="root")).json()["copies"] == []

    async def test_a_quarantine_names_the_other_versions_of_its_bytes(self, site):
        for version in ("1.0.0", "1.0.1", "1.0.2"):
            assert (await site.publish("ann", skill_archive(), query=f"version={version}")).status == 201
        await site.publish("bob")
        path, state = "/packages/ann/notes", {"status": "quarantined", "reason": "steals keys"}
        answer = (await site.call("PATCH", f"{path}/1.0.1", state, by="root")).json()
        assert (answer["copies"], answer["more_copies"]) == (["bob/notes", "ann/notes@1.0.0", "ann/notes@1.0.2"], False)
        answer = (await site.call("PATCH", f"{path}/1.0.0", state, by="root")).json()
        assert answer["copies"] == ["bob/notes", "ann/notes@1.0.2"]
        answer = (await site.call("PATCH", path, state, by="root")).json()
        assert answer["copies"] == ["bob/notes"], "all versions of a package in quarantine are refused"

    @pytest.mark.parametrize("query", ["version=1.0.2", "version=1.0.2&dry_run=1"])
    async def test_bytes_in_quarantine_are_not_published_as_another_version(self, site, query):
        for version in ("1.0.0", "1.0.1"):
            await site.publish("ann", skill_archive(), query=f"version={version}")
        path, state = "/packages/ann/notes/1.0.1", {"status": "quarantined", "reason": "steals keys"}
        await site.call("PATCH", path, state, by="root")
        refused = await site.publish("ann", skill_archive(), query=query)
        assert (refused.status, code_of(refused)) == (403, "QUARANTINED")
        error = refused.json()["error"]
        assert error["message"] == "ann/notes 1.0.2 has the bytes of a version in quarantine: steals keys"
        assert error["details"]["fix"].startswith("Publish other files")
        assert (await site.call("GET", "/packages/ann/notes")).json()["latest"] == "1.0.0"
        for same in ("", "&dry_run=1"):
            again = await site.publish("ann", skill_archive(), query=f"version=1.0.0{same}")
            assert (again.status, again.json()["status"]) == (200, "repeated")
        assert (await site.publish("bob", skill_archive())).status == 201, "a moderator decides on each package"
        await site.call("PATCH", path, {"status": "active"}, by="root")
        assert (await site.publish("ann", skill_archive(), query=query)).status < 300

    @pytest.mark.parametrize("path", ["/packages/ann/notes/1.0.0", "/packages/ann/notes"])
    async def test_the_audit_log_marks_a_publication_of_bytes_that_another_package_has_in_quarantine(self, site, path):
        await site.publish("ann")
        await site.call("PATCH", path, {"status": "quarantined", "reason": "steals keys"}, by="root")
        await site.publish("bob")
        await site.publish("bob", skill_archive(version="2.0.0"))
        entries = (await site.call("GET", "/audit", by="root")).json()["entries"]
        marks = [one["details"].get("in_quarantine") for one in entries if one["action"] == "version.publish"]
        assert marks == [None, True, None]

    @pytest.mark.parametrize("dry_run", ["", "&dry_run=1"])
    async def test_yanked_bytes_are_published_again_with_a_warning(self, site, dry_run):
        await site.publish("ann")
        assert not (await site.publish("ann", query=f"version=1.0.1{dry_run}")).json()["findings"]
        state = {"status": "yanked", "reason": "loses data"}
        await site.call("PATCH", "/packages/ann/notes/1.0.0", state, by="ann")
        again = (await site.publish("ann", query=f"version=1.0.2{dry_run}")).json()
        (finding,) = again["findings"]
        assert (finding["code"], finding["level"]) == ("YANKED", "warning")
        assert finding["message"] == "ann/notes 1.0.0 has the same bytes, and is yanked: loses data"
        assert not (await site.publish("bob")).json()["findings"]

    @pytest.mark.parametrize("bound", ["digests", "packages"])
    async def test_a_quarantine_looks_for_a_bounded_number_of_copies_and_says_so(self, site, bound, monkeypatch):
        for owner in ("ann", "bob"):
            await site.publish(owner)
        await site.publish("ann", skill_archive(version="2.0.0"))
        if bound == "digests":
            monkeypatch.setattr("skillwire.server.routes.registry._COPIED", 1)
        else:
            monkeypatch.setattr(limits, "REGISTRY_PAGE", 1)
        state = {"status": "quarantined", "reason": "steals keys"}
        answer = (await site.call("PATCH", "/packages/ann/notes", state, by="root")).json()
        assert (answer["copies"], answer["more_copies"]) == ([] if bound == "digests" else ["bob/notes"], True)

    async def test_an_archived_package_takes_no_versions_until_it_is_active(self, site):
        await site.publish("ann")
        await site.publish("bob", skill_archive("memos"))
        path = "/packages/ann/notes"
        archived = await site.call("PATCH", path, {"status": "archived", "successor": "bob/memos"}, by="ann")
        assert archived.json()["status"] == {"status": "archived", "successor": "bob/memos"}
        closed = await site.publish("ann", skill_archive(version="2.0.0"))
        assert (closed.status, code_of(closed)) == (409, "PACKAGE_CLOSED")
        assert (await site.call("PATCH", path, {"status": "active"}, by="ann")).status == 200
        assert (await site.publish("ann", skill_archive(version="2.0.0"))).status == 201
        for bad in ({"status": "yanked"}, {}, {"status": "archived", "successor": "x"}, {"access": "secret"}):
            assert (await site.call("PATCH", path, bad, by="ann")).status == 400

    async def test_a_deleted_package_is_gone_and_its_name_stays_taken(self, site):
        await site.publish("ann")
        assert (await site.call("DELETE", "/packages/ann/notes", by="bob")).status == 403
        assert (await site.call("DELETE", "/packages/ann/notes", by="ann")).status == 204
        for path in ("", "/1.0.0", "/1.0.0/download"):
            assert (await site.call("GET", f"/packages/ann/notes{path}", by="ann")).status == 404
        assert (await site.call("GET", "/namespaces/ann", by="ann")).json()["packages"] == []
        assert (await site.publish("ann", skill_archive(version="2.0.0"))).status == 409

    async def test_a_deprecated_package_or_version_stays_usable_and_names_its_successor(self, site):
        await site.publish("ann")
        await site.publish("ann", skill_archive(version="1.1.0"))
        await site.publish("bob", skill_archive("memos"))
        state = {"status": "deprecated", "reason": "use memos", "successor": "bob/memos"}
        for path in ("/packages/ann/notes/1.1.0", "/packages/ann/notes"):
            assert (await site.call("PATCH", path, state, by="bob")).status == 403
            assert (await site.call("PATCH", path, state, by="ann")).json()["status"] == state
        package = (await site.call("GET", "/packages/ann/notes")).json()
        assert (package["latest"], package["status"]) == ("1.1.0", state)
        assert [one["status"] for one in package["versions"]] == [state, {"status": "active"}]
        assert (await site.call("GET", "/packages/ann/notes/1.1.0/download")).status == 200
        assert (await site.publish("ann", skill_archive(version="1.2.0"))).status == 201

    async def test_a_successor_is_a_package_that_its_publisher_may_know_of(self, site):
        await site.publish("ann")
        await site.publish("bob", skill_archive("memos", skill_toml='access = "private"\n'))
        for path in ("/packages/ann/notes/1.0.0", "/packages/ann/notes"):
            for successor in ("bob/nothing", "bob/memos"):
                state = {"status": "deprecated", "successor": successor}
                refused = await site.call("PATCH", path, state, by="ann")
                assert (refused.status, code_of(refused)) == (404, "PACKAGE_NOT_FOUND")
                error = refused.json()["error"]
                assert error["message"] == f"there is no package '{successor}'"
                assert error["details"]["fix"].startswith("Publish the successor first")
                assert (await site.call("PATCH", path, state)).status == 401
            assert (await site.call("GET", path)).json()["status"] == {"status": "active"}

    async def test_a_successor_has_the_form_of_a_package(self, site):
        await site.publish("ann")
        state = {"status": "deprecated", "successor": "bogus"}
        error = (await site.call("PATCH", "/packages/ann/notes", state, by="ann")).json()["error"]
        assert (error["code"], "NAMESPACE/NAME" in error["details"]["fix"]) == ("REFERENCE", True)

    async def test_a_package_is_not_its_own_successor(self, site):
        await site.publish("ann")
        for path in ("/packages/ann/notes/1.0.0", "/packages/ann/notes"):
            state = {"status": "deprecated", "successor": "ann/notes"}
            refused = await site.call("PATCH", path, state, by="ann")
            assert (refused.status, code_of(refused)) == (400, "REFERENCE")
            assert refused.json()["error"]["message"] == "ann/notes cannot be its own successor"
            assert (await site.call("GET", path)).json()["status"] == {"status": "active"}

    @pytest.mark.parametrize(
        ("before", "asked", "status"),
        [
            ("public", {"access": "private", "status": "quarantined", "reason": "x"}, 403),
            ("private", {"access": "public", "status": "deprecated", "reason": "a\nb"}, 400),
            ("private", {"access": "public", "status": "deprecated", "successor": "bob/nothing"}, 404),
            ("private", {"access": "public", "status": "active", "successor": "ann/memos"}, 400),
            ("public", {"access": "private", "renamed_to": "ann/memos"}, 400),
            ("public", {"status": "archived", "renamed_to": "ann/memos"}, 400),
            ("public", {"reason": "x", "renamed_to": "ann/memos"}, 400),
        ],
    )
    async def test_a_refused_change_changes_nothing(self, site, before, asked, status):
        await site.publish("ann")
        await site.publish("ann", skill_archive("memos"))
        path = "/packages/ann/notes"
        assert (await site.call("PATCH", path, {"access": before}, by="ann")).status == 200
        entries = len(await site.store.audit(0, 99))
        refused = await site.call("PATCH", path, asked, by="ann")
        assert (refused.status, bool(refused.json()["error"]["details"]["fix"])) == (status, True)
        package = (await site.call("GET", path, by="ann")).json()
        assert (package["namespace"], package["name"]) == ("ann", "notes")
        assert (package["access"], package["status"]) == (before, {"status": "active"})
        assert len(await site.store.audit(0, 99)) == entries

    async def test_access_and_state_are_set_in_one_request(self, site):
        await site.publish("ann")
        asked, revision = {"access": "restricted", "status": "archived", "reason": "done"}, await site.store.revision()
        package = (await site.call("PATCH", "/packages/ann/notes", asked, by="ann")).json()
        assert (package["access"], package["status"]) == ("restricted", {"status": "archived", "reason": "done"})
        assert await site.store.revision() == revision + 1, "both are one transaction"
        entries = [(one.change.action, one.change.details) for one in (await site.store.audit(0, 99))[-2:]]
        assert entries == [("package.access", {"access": "restricted"}), ("package.archived", {"reason": "done"})]

    async def test_an_active_version_has_no_successor(self, site):
        await site.publish("ann")
        await site.publish("ann", skill_archive("memos"))
        path, asked = "/packages/ann/notes/1.0.0", {"status": "active", "successor": "ann/memos"}
        refused = await site.call("PATCH", path, asked, by="ann")
        assert (refused.status, code_of(refused)) == (400, "REFERENCE")
        assert (await site.call("GET", path)).json()["status"] == {"status": "active"}

    @pytest.mark.parametrize(
        ("change", "message", "fix"),
        [
            ({"status": "archived"}, "is archived,", "registry status ann/notes active"),
            ({"status": "deleted"}, "was deleted,", "never given again"),
            ({"status": "quarantined", "reason": "steals keys"}, "is in quarantine,", "Ask an operator"),
            ({"renamed_to": "ann/memos"}, "was renamed to ann/memos,", "Publish it as ann/memos."),
        ],
    )
    @pytest.mark.parametrize("query", ["", "dry_run=1"])
    async def test_a_closed_package_tells_why_it_takes_no_versions(self, site, change, message, fix, query):
        await site.publish("ann")
        await site.publish("ann", skill_archive("memos"))
        by = "root" if "reason" in change else "ann"
        assert (await site.call("PATCH", "/packages/ann/notes", change, by=by)).status == 200
        error = (await site.publish("ann", skill_archive(version="2.0.0"), query=query)).json()["error"]
        assert error["code"] == "PACKAGE_CLOSED"
        assert message in error["message"]
        assert ("steals keys" in error["message"]) == ("reason" in change)
        assert fix in error["details"]["fix"]

    async def test_a_package_redirects_to_the_one_with_its_new_name(self, site):
        await site.publish("ann")
        await site.publish("ann", skill_archive("memos"))
        path = "/packages/ann/notes"
        for bad, status in (("ann/nothing", 404), ("x", 400), ("ann/notes", 400), ("bob/memos", 404)):
            refused = await site.call("PATCH", path, {"renamed_to": bad}, by="ann")
            assert refused.status == status
            assert ("new name first" in refused.json()["error"]["details"]["fix"]) == (bad == "ann/nothing")
            assert ("already" in refused.json()["error"]["message"]) == (bad == "ann/notes")
        assert (await site.call("PATCH", path, {"renamed_to": "ann/memos"}, by="bob")).status == 403
        assert (await site.call("PATCH", path, {"renamed_to": "ann/memos"}, by="ann")).status == 200
        moved = await site.call("GET", f"{path}/1.0.0/download?x=1")
        assert (moved.status, moved.fields["location"]) == (
            308,
            "/api/registry/packages/ann/memos/1.0.0/download?x=1",
        )
        closed = await site.publish("ann", skill_archive(version="2.0.0"))
        assert (closed.status, code_of(closed)) == (409, "PACKAGE_CLOSED")
        site.look()
        assert list(site.application.catalog.current.catalog.skills) == ["memos"]
        listed = (await site.call("GET", "/namespaces/ann", by="ann")).json()["packages"]
        assert [one["name"] for one in listed] == ["memos"]

    async def test_changes_of_a_redirected_package_never_reach_the_new_one(self, site):
        await site.publish("ann")
        await site.publish("ann", skill_archive("memos"))
        path, new = "/packages/ann/notes", "/packages/ann/memos"
        assert (await site.call("PATCH", path, {"renamed_to": "ann/memos"}, by="ann")).status == 200
        refused = [
            await site.call("PATCH", path, {"status": "deleted"}, by="ann"),
            await site.call("PATCH", path, {"status": "archived"}, by="ann"),
            await site.call("PATCH", path, {"access": "private"}, by="ann"),
            await site.call("PATCH", path, {"status": "deprecated", "reason": "old"}, by="ann"),
            await site.call("PATCH", path, {"renamed_to": "ann/memos"}, by="ann"),
            await site.call("DELETE", path, by="ann"),
            await site.call("PUT", f"{path}/readers/bob", by="ann"),
            await site.call("DELETE", f"{path}/readers/bob", by="ann"),
            await site.ask("DELETE", "/v1/skills/ann--notes", by="ann"),
            await site.ask("DELETE", "/api/v1/skills/notes?ownerHandle=ann", by="ann"),
        ]
        assert {(one.status, b"ann/memos" in one.body) for one in refused} == {(409, True)}
        assert {code_of(one) for one in refused[:8]} == {"RENAMED"}
        assert (await site.call("PATCH", path, {"status": "deleted"}, by="bob")).status == 403
        yank = {"status": "yanked", "reason": "broken"}
        assert (await site.call("PATCH", f"{path}/1.0.0", yank, by="ann")).json()["status"] == yank
        package = (await site.call("GET", new)).json()
        assert (package["status"], package["access"], package["latest"]) == ({"status": "active"}, "public", "1.0.0")
        assert [one["status"] for one in package["versions"]] == [{"status": "active"}]


async def test_an_unknown_bearer_token_is_told_what_keys_begin_with(site):
    refused = await site.call("GET", "/whoami", by="unknown-token")
    assert refused.status == 401
    message = refused.json()["error"]["message"]
    assert message == "the bearer token is no API key of this server; those begin with sw_"


class TestAnswers:
    async def test_lists_carry_a_tag_and_are_confirmed_by_it(self, site):
        await site.publish("ann")
        for path in ("/namespaces", "/namespaces/ann", "/packages/ann/notes", "/packages/ann/notes/1.0.0", "/stats"):
            answer = await site.call("GET", path)
            assert answer.fields["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
            held = await site.call("GET", path, fields={"If-None-Match": answer.fields["etag"]})
            assert (held.status, held.body, held.fields["etag"]) == (304, b"", answer.fields["etag"])
            head = await site.call("HEAD", path)
            assert (head.status, head.body, head.fields["etag"]) == (200, b"", answer.fields["etag"])
            own = await site.call("GET", path, by="ann")
            assert own.fields["cache-control"] == "private, no-cache"
            assert "Authorization" in own.fields["vary"]

    async def test_downloads_are_counted_once_for_each_identity_and_day(self, site):
        await site.publish("ann")
        for token in (None, None, "ann", "bob", "bob"):
            await site.call("GET", "/packages/ann/notes/1.0.0/download", by=token)
        await site.call("HEAD", "/packages/ann/notes/1.0.0/download", by="root")
        await site.parts.downloads.close()
        assert list((await site.call("GET", "/packages/ann/notes")).json()["downloads"].values()) == [3]
        assert (await site.call("GET", "/stats")).json() == {
            "namespaces": 1,
            "packages": 1,
            "versions": 1,
            "downloads": 3,
            "bytes": (await site.call("GET", "/packages/ann/notes/1.0.0")).json()["size"],
        }

    async def test_a_server_without_a_registry_has_none_of_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
        site = Asgi(create_app([], blobs=tmp_path / "blobs", access_log=False))
        site.application.catalog._refresh(None)
        for path in ("", "/namespaces", "/setup"):
            assert (await site.get(f"/api/registry{path}")).status == 404

    async def test_bytes_are_made_from_the_artifact_when_they_are_read_or_were_lost(self, site, tmp_path):
        files = skill_files(a_txt="x")
        made = (await site.publish("ann", tar_gz(files))).json()
        digests = [made["digest"].removeprefix("sha256:"), hashlib.sha256(files["SKILL.md"].encode()).hexdigest()]
        site.look()
        blobs = [tmp_path / "blobs" / digest[:2] / digest[2:] for digest in digests]
        assert not any(blob.exists() for blob in blobs)
        artifact = f"/.well-known/agent-skills/sha256/{digests[0]}.tar.gz"
        download = "/api/registry/packages/ann/notes/1.0.0/download"
        for path in (artifact, "/.well-known/agent-skills/notes/SKILL.md", download):
            assert (await site.get(path)).status == 200
            for blob in blobs:
                blob.write_bytes(b"damaged")
            assert (await site.get(path)).status == 200
            for blob in blobs:
                blob.unlink(missing_ok=True)
        await site.publish("ann", skill_archive("notes", "1.1.0"))
        site.look()
        assert (await site.get(artifact)).status == 200, "who has the index of a moment ago fetches what it names"

    async def test_the_files_of_an_action_are_there_before_it_is_listed(self, site, tmp_path):
        """A worker, which is another process, makes nothing again."""
        code = "def main(inputs):\n    return 1\n"
        manifest = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
        assert (await site.publish("ann", tar_gz(skill_files(skill_toml=manifest, main_py=code)))).status == 201
        site.look()
        digest = hashlib.sha256(code.encode()).hexdigest()
        assert (tmp_path / "blobs" / digest[:2] / digest[2:]).exists()


async def test_answers_fit_the_description_of_the_api(site):
    document = openapi.document(site.application.routes)
    described = {path: item for path, item in document["paths"].items() if path.startswith("/api/registry")}
    assert len(described) == 25
    check_openapi(document)
    await site.publish("ann")
    begun = await site.call("POST", "/uploads", {"size": 1, "digest": "sha256:" + "0" * 64}, by="root")
    named = {"namespace": "ann", "package": "notes", "version": "1.0.0", "upload": begun.json()["id"]}
    for path, item in described.items():
        if "get" in item and not path.endswith("/download"):
            answer = await site.get(path.format(**named), {"Authorization": f"Bearer {site.tokens['root']}"})
            schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            check_answer(answer.json(), schema, document)


async def test_a_client_may_wait_until_its_change_is_served(site, monkeypatch):
    catalog = site.application.catalog
    follow, begun = catalog.follow, asyncio.Event()

    async def follow_and_say_so(seconds):
        begun.set()
        await follow(seconds)

    monkeypatch.setattr(catalog, "follow", follow_and_say_so)
    fields = {"Prefer": "respond-async, wait=5"}
    publication = site.call("POST", "/namespaces/ann/packages", body=skill_archive(), by="ann", fields=fields)
    waiting = asyncio.create_task(publication)
    await begun.wait()
    assert not waiting.done()
    assert "notes" not in catalog.current.site.names
    site.look()
    assert (await waiting).status == 201
    assert "notes" in catalog.current.site.names
    change = {"status": "yanked", "reason": "wrong"}
    yanked = await site.call("PATCH", "/packages/ann/notes/1.0.0", change, by="ann", fields={"Prefer": "wait=0"})
    assert yanked.status == 200, "a change is answered in the end where nothing follows it"


class TestReadYourWrites:
    """An answer to a change names it, and a request that sends that back is answered with the change."""

    INDEX = "/.well-known/agent-skills/index.json"

    @staticmethod
    async def change(site):
        answer = await site.call("POST", "/namespaces/ann/packages", body=skill_archive(), by="ann")
        assert answer.status == 201
        return answer.fields["skillwire-revision"]

    async def test_a_request_waits_until_the_change_is_served(self, site, monkeypatch):
        revision = await self.change(site)
        assert "notes" not in (await site.get(self.INDEX)).body.decode()
        catalog = site.application.catalog

        async def follow(_):
            site.look()

        monkeypatch.setattr(catalog, "start", lambda: None)  # whose thread would look at the same moment
        monkeypatch.setattr(catalog, "follow", follow)
        assert "notes" in (await site.get(self.INDEX, {"Skillwire-Revision": revision})).body.decode()
        assert catalog.reached == int(revision)

    async def test_a_change_that_is_not_served_in_time_is_503(self, site, monkeypatch):
        revision = await self.change(site)

        async def follow(_):
            pass

        monkeypatch.setattr(site.application.catalog, "follow", follow)
        answer = await site.get(self.INDEX, {"Skillwire-Revision": revision})
        assert (answer.status, answer.json()["error"]["code"]) == (503, "NOT_READY")
        assert answer.fields["retry-after"] == "1"

    async def test_a_change_that_the_database_lost_stands_for_all_that_it_has(self, site, monkeypatch):
        await self.change(site)

        async def follow(_):
            site.look()

        monkeypatch.setattr(site.application.catalog, "start", lambda: None)
        monkeypatch.setattr(site.application.catalog, "follow", follow)
        assert "notes" in (await site.get(self.INDEX, {"Skillwire-Revision": "999999999999"})).body.decode()

    @pytest.mark.parametrize("sent", ["1" * 16, "-1", "x", ""])
    async def test_what_is_no_change_is_not_waited_for(self, site, monkeypatch, sent):
        await self.change(site)
        monkeypatch.setattr(site.application.catalog, "follow", None)
        assert (await site.get(self.INDEX, {"Skillwire-Revision": sent})).status == 200

    async def test_a_stranger_learns_no_change(self, site):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        begun = await site.call("POST", "/oauth/device", body=b"client_id=x", fields=form)
        assert (begun.status, begun.fields.get("skillwire-revision")) == (200, None)

    async def test_a_refused_change_and_a_read_name_none(self, site):
        refused = await site.call("POST", "/namespaces/ann/packages", body=b"no archive", by="ann")
        read = await site.call("GET", "/packages/ann/notes", by="ann")
        assert not any("skillwire-revision" in answer.fields for answer in (refused, read))
