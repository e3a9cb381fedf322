"""``POST /rpc``: JSON-RPC over HTTP, what is answered before it, and what strangers may not learn or take."""

import asyncio
import json

import pytest
import structlog
from tests.support.eventually import PATIENCE

from skillwire import limits
from skillwire.model.execution import Outcome
from skillwire.protocols.skills_rpc.server import SkillIndex
from skillwire.server import rpc_methods as rpc_skills
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.quotas import RateLimit

NAMES = ["acme.count.words", "acme.open.notes"]
#: What browsers say of pages of other sites: of one, of one whose name leads here now, and of one without a name.
PAGES = (
    {"Origin": "https://other.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Host": "127.0.0.1:8000", "Origin": "null"},
)


def request(method, params=None, **more):
    return {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}


class TestAnswers:
    @pytest.mark.parametrize("request_id", ["1", "", 7, -1, 2.5, None])
    async def test_a_call_is_answered_with_the_id_that_it_came_with(self, rpc, request_id):
        answer = await rpc.send(request("list_skills", {"limit": 1}, id=request_id))
        assert answer.status == 200
        assert answer.fields["content-type"] == "application/json"
        assert answer.fields["cache-control"] == "no-store"
        assert answer.fields["access-control-allow-origin"] == "*"
        assert answer.json()["id"] == request_id
        assert type(answer.json()["id"]) is type(request_id)

    @pytest.mark.spec("SKP-http")
    async def test_skills_are_listed_described_and_read(self, rpc):
        listed = await rpc.call("list_skills", {"detail": "summary", "namespace": "acme"})
        assert [skill["name"] for skill in listed["skills"]] == [NAMES[0], "acme.known.notes", NAMES[1]]
        described = await rpc.call("describe_skill", {"name": NAMES[1], "detail": "full"})
        read = await rpc.call("read_skill_file", {"name": NAMES[1], "path": "SKILL.md"})
        assert described["skill"]["skill_md_content"] == read["content"]
        assert (await rpc.call("load_skills_protocol_guide"))["content"].startswith("---\n")

    async def test_pages_follow_one_another(self, rpc):
        first = await rpc.call("list_skills", {"limit": 2})
        last = await rpc.call("list_skills", {"limit": 2, "cursor": first["next_cursor"]})
        assert [skill["name"] for skill in (*first["skills"], *last["skills"])] == [
            NAMES[0],
            "acme.known.notes",
            NAMES[1],
        ]
        assert last["next_cursor"] is None

    @pytest.mark.spec("SKP-http")
    async def test_a_notification_has_no_answer(self, rpc):
        for body in (request("list_skills"), request("no_such_method"), [request("list_skills"), request("nope")]):
            answer = await rpc.send(body)
            assert (answer.status, answer.body) == (204, b"")
            assert "content-type" not in answer.fields

    async def test_a_batch_is_answered_in_its_order_each_on_its_own(self, rpc):
        batch = [
            request("describe_skill", {"name": NAMES[1]}, id="slow"),
            request("list_skills", {"limit": 1}, id=2),
            request("list_skills"),
            1,
            request("list_skills", {"limit": 0}, id=3),
        ]
        answers = (await rpc.send(batch)).json()
        assert [answer["id"] for answer in answers] == ["slow", 2, None, 3]
        assert [answer.get("error", {}).get("code") for answer in answers] == [None, None, -32600, -32602]

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", -32700),
            (b"{", -32700),
            (b"\xff", -32700),
            (b"[" * 1000, -32700),
            (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"list_skills"}', -32700),
            (b'{"jsonrpc":"2.0","id":1,"method":"list_skills","params":{"limit":1e999}}', -32700),
            (b"[]", -32600),
            (b"3", -32600),
            (b'{"jsonrpc":"2.0","id":{},"method":"list_skills"}', -32600),
            (b"[" + b"1," * limits.RPC_BATCH + b"1]", -32600),
        ],
    )
    async def test_what_is_no_request_is_told_so_without_an_id(self, rpc, body, code):
        answer = await rpc.send(body)
        assert answer.status == 200
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, code)

    async def test_large_requests_are_read_aside(self, rpc):
        answer = await rpc.send(request("list_skills", {"x" * 100_000: 1}, id=1))
        assert answer.json()["error"]["code"] == -32602

    async def test_a_failure_inside_is_told_as_one_and_no_more(self, rpc, monkeypatch):
        def fail(*_):
            raise ValueError("the secret of the house")

        monkeypatch.setattr("skillwire.protocols.skills_rpc.server.SkillsRpc.list_skills", fail)
        with structlog.testing.capture_logs() as logs:
            error = await rpc.error("list_skills")
        assert error["code"] == -32603
        assert "secret" not in json.dumps(error)
        assert "a call failed" in [line["event"] for line in logs]

    async def test_bytes_that_are_lost_are_told_without_a_path(self, rpc, monkeypatch):
        monkeypatch.setattr(rpc.caller.application.catalog.blobs, "read", lambda _: None)
        error = await rpc.error("read_skill_file", {"name": NAMES[1], "path": "SKILL.md"})
        assert error["code"] == -32603
        assert "/" not in error["message"]


class TestBeforeJsonRpc:
    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
    async def test_other_methods_are_refused_and_tell_those_of_the_protocol(self, rpc, method):
        answer = await rpc.caller.request("/rpc", method=method)
        assert (answer.status, answer.fields["allow"]) == (405, "POST, OPTIONS")
        if method != "HEAD":
            assert "list_skills" in answer.json()["error"]["details"]["methods"]

    async def test_pages_of_other_sites_may_ask_first(self, rpc):
        answer = await rpc.caller.request("/rpc", {"Origin": "https://other.example"}, method="OPTIONS")
        assert (answer.status, answer.fields["access-control-allow-methods"]) == (204, "POST, OPTIONS")
        assert "Content-Type" in answer.fields["access-control-allow-headers"]

    @pytest.mark.parametrize(
        "kind",
        [
            *("text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"),
            *("application/json; charset=latin-1", 'application/json; x=1; Charset="utf-16"'),
        ],
    )
    async def test_only_json_is_read(self, rpc, kind):
        answer = await rpc.send(request("list_skills", id=1), {"Content-Type": kind})
        assert (answer.status, answer.json()["error"]["code"]) == (415, "MEDIA_TYPE")

    @pytest.mark.parametrize(
        "kind",
        ["application/json; charset=utf-8", "Application/JSON", "application/json-rpc", "application/vnd.x+json"],
    )
    async def test_json_has_several_names(self, rpc, kind):
        assert (await rpc.send(request("list_skills", id=1), {"Content-Type": kind})).status == 200

    async def test_a_compressed_body_is_refused_as_such(self, rpc):
        answer = await rpc.send(request("list_skills", id=1), {"Content-Encoding": "gzip"})
        assert (answer.status, answer.json()["error"]["code"]) == (415, "MEDIA_TYPE")
        assert answer.fields["accept-encoding"] == "identity"
        assert (await rpc.send(request("list_skills", id=1), {"Content-Encoding": "identity"})).status == 200

    async def test_a_slash_at_the_end_is_ignored(self, rpc):
        body = json.dumps(request("list_skills", id=1)).encode()
        fields = {"Content-Type": "application/json"}
        answer = await rpc.caller.request("/rpc/", fields, method="POST", body=body)
        assert (answer.status, answer.json()["id"]) == (200, 1)

    @pytest.mark.spec("SKP-http-before")
    async def test_a_body_is_bounded(self, rpc):
        answer = await rpc.send(b" " * (limits.RPC_REQUEST_BYTES + 1))
        assert (answer.status, answer.json()["error"]["code"]) == (413, "LIMIT_SIZE")

    async def test_credentials_that_are_not_good_are_refused_before_anything_is_called(self, rpc):
        answer = await rpc.send(request("list_skills", id=1), {"X-API-Key": "nonsense"})
        assert answer.status == 401

    @pytest.mark.spec("SKP-http-before")
    async def test_a_batch_counts_as_many_requests_as_it_holds(self, speaking):
        rpc = await speaking(ServerConfiguration(anonymous_limit=RateLimit(60, 10)))
        batch = [request("list_skills", id=number) for number in range(6)]
        first, second = await rpc.send(batch), await rpc.send(batch)
        assert (first.status, first.fields["ratelimit-remaining"]) == (200, "4")
        assert (second.status, second.json()["error"]["code"]) == (429, "TOO_MANY_REQUESTS")
        assert int(second.fields["retry-after"]) >= 1

    async def test_it_is_counted_as_a_route_of_its_own(self, rpc):
        await rpc.call("list_skills")
        metrics = rpc.caller.application.services.metrics
        assert metrics.requests["rpc", 200] == 1


class TestAccess:
    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("describe_skill", {"detail": "manifest"}),
            ("describe_skill", {"version": "9.9.9"}),
            ("read_skill_file", {"path": "SKILL.md"}),
            ("read_skill_file", {"path": "none.md", "version": "1.0.0"}),
            ("execute_skill", {}),
            ("execute_skill", {"version": "1.0.0", "input_blobs": ["blob:x"]}),
        ],
    )
    async def test_what_is_hidden_is_answered_as_what_is_not_there(self, rpc, method, params):
        told = [
            json.dumps(await rpc.error(method, {"name": name, **params})).replace(name, "NAME")
            for name in ("acme.hidden.action", "acme.absent.action")
        ]
        assert told[0] == told[1]
        assert '"code": -32001' in told[0]

    async def test_a_hidden_skill_is_not_mounted(self, rpc):
        told = [
            json.dumps(await rpc.error("run_code", {"code": "", "mount_skills": [name]})).replace(name, "NAME")
            for name in ("acme.hidden.notes", "acme.absent.notes")
        ]
        assert told[0] == told[1]

    async def test_a_namespace_of_hidden_skills_is_as_empty_as_any(self, rpc):
        assert await rpc.call("list_skills", {"namespace": "acme.hidden"}) == {"skills": [], "next_cursor": None}

    async def test_who_was_let_in_sees_more(self, rpc, key):
        listed = await rpc.call("list_skills", fields=key)
        assert {"acme.hidden.notes", "acme.known.notes"} <= {skill["name"] for skill in listed["skills"]}
        read = await rpc.call("read_skill_file", {"name": "acme.known.notes", "path": "more.md"}, key)
        assert read == {"content": "# More\n"}

    async def test_what_may_be_known_and_not_used_is_described_and_not_read(self, rpc):
        assert (await rpc.call("describe_skill", {"name": "acme.known.notes"}))["skill"]["manifest"]["version"]
        for method, params in (("read_skill_file", {"path": "more.md"}), ("execute_skill", {})):
            assert (await rpc.error(method, {"name": "acme.known.notes", **params}))["code"] == -32004

    async def test_lists_are_written_once_in_a_revision_and_chosen_from_once_for_an_audience(
        self, rpc, key, monkeypatch
    ):
        made = []

        def make(skills, within=None):
            made.append(within is None)
            return SkillIndex(skills, within)

        monkeypatch.setattr(rpc_skills, "SkillIndex", make)
        asking = [rpc.call("list_skills", fields=fields) for fields in (None, key) * 5]
        await asyncio.gather(*asking)
        assert sorted(made) == [False, False, True]

    async def test_a_list_that_could_not_be_made_is_made_by_the_next_request(self, rpc, monkeypatch):
        def fail(*_):
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(rpc_skills, "SkillIndex", fail)
            assert (await rpc.send(request("list_skills", id=1))).status == 500
        assert (await rpc.call("list_skills"))["skills"]


class TestExecutions:
    async def test_a_skill_is_executed_and_followed_to_its_end(self, rpc):
        run = await rpc.call("execute_skill", {"name": NAMES[0], "args": {"n": 3}})
        assert (run["status"], run["output"]) == ("completed", {"n": 3})

    async def test_nothing_is_executed_unless_somebody_says_so(self, speaking):
        rpc = await speaking()
        for method, params in (
            ("execute_skill", {"name": NAMES[0]}),
            ("run_code", {"code": ""}),
            ("create_blob", {"content": "x", "kind": "text/plain"}),
        ):
            error = await rpc.error(method, params)
            assert error["code"] == -32004
            assert "[rpc]" in error["data"]["fix"]

    @pytest.mark.spec("SKP-http-bounds")
    async def test_who_goes_away_is_not_waited_for_and_the_run_goes_on(self, rpc, executor):
        go_on = asyncio.Event()

        async def run(_):
            await go_on.wait()
            return Outcome({"done": True})

        executor.script = run
        body = json.dumps(request("execute_skill", {"name": NAMES[0]}, id=1)).encode()
        leaves = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            if messages:
                return messages.pop()
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            raise AssertionError(message)

        headers = [(b"content-type", b"application/json"), (b"host", b"skills.example.com")]
        scope = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "path": "/rpc",
            "query_string": b"",
            "headers": headers,
            "client": ("192.0.2.7", 1),
        }
        application = rpc.caller.application
        asking = asyncio.create_task(application(scope, receive, send))
        await executor.began()
        leaves.set()
        async with asyncio.timeout(PATIENCE):
            await asking
        assert application.services.metrics.requests["rpc", 499] == 1
        assert len(application.services.executions.service.changes) == 0
        go_on.set()
        assert not executor.cancelled.is_set()

    @pytest.mark.parametrize("page", PAGES)
    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("execute_skill", {"name": NAMES[0]}),
            ("run_code", {"code": "def main(args):\n    return 1\n"}),
            ("create_blob", {"content": "x", "kind": "text/plain"}),
            ("read_blob", {"blob_id": f"blob:{64 * 'a'}"}),
        ],
    )
    async def test_a_page_of_another_site_has_nothing_done_without_a_credential(
        self, rpc, executor, page, method, params
    ):
        error = await rpc.error(method, params, page)
        assert (error["code"], error["data"]["code"]) == (-32004, "PAGE_REFUSED")
        assert "origins below [rpc]" in error["data"]["fix"]
        assert (await rpc.send(request(method, params), page)).status == 204
        assert not executor.attempts
        assert await rpc.call("list_skills", {}, page)

    async def test_who_shows_a_credential_may_do_so_from_any_page(self, rpc, key):
        code = {"code": "def main(args):\n    return 1\n"}
        for fields in ({}, {**PAGES[0], **key}):
            assert (await rpc.call("run_code", code, fields))["status"] == "completed"

    async def test_pages_that_the_operator_names_have_something_done(self, speaking):
        rpc = await speaking(execute_skill=True, origins=("https://other.example",))
        blob = {"content": "x", "kind": "text/plain"}
        assert (await rpc.call("create_blob", blob, PAGES[0]))["size_bytes"] == 1
        assert (await rpc.error("create_blob", blob, PAGES[1]))["data"]["code"] == "PAGE_REFUSED"


class TestBounds:
    @pytest.mark.spec("SKP-http-bounds")
    async def test_the_answers_to_a_batch_are_bounded_in_all(self, rpc, monkeypatch):
        monkeypatch.setattr(limits, "RPC_ANSWER_BYTES", 120_000)
        read = request("read_skill_file", {"name": NAMES[1], "path": "large.txt"})
        answers = (await rpc.send([{**read, "id": number} for number in range(4)])).json()
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert [error["data"]["code"] for error in refused] == ["LIMIT_SIZE"] * 2
        assert all("alone" in error["data"]["fix"] for error in refused)
        assert (await rpc.send({**read, "id": 1})).json()["result"]

    async def test_nothing_is_executed_whose_answer_would_have_no_room(self, rpc, executor, monkeypatch):
        monkeypatch.setattr(limits, "RPC_ANSWER_BYTES", 60_000)
        monkeypatch.setattr(limits, "RPC_BATCH_AT_ONCE", 1)
        read = request("read_skill_file", {"name": NAMES[1], "path": "large.txt"}, id=1)
        batch = [read, read, request("execute_skill", {"name": NAMES[0]}, id=2), request("list_skills")]
        answers = (await rpc.send(batch)).json()
        assert [answer.get("error", {}).get("data", {}).get("code") for answer in answers] == [
            None,
            "LIMIT_SIZE",
            "LIMIT_SIZE",
        ]
        assert not executor.attempts

    async def test_what_is_held_for_all_is_bounded(self, rpc, monkeypatch):
        bodies = rpc.caller.application.services.executions.answers
        monkeypatch.setattr(bodies, "_bounds", bodies._bounds._replace(held=60_000, of_address=60_000))
        read = request("read_skill_file", {"name": NAMES[1], "path": "large.txt"})
        answers = (await rpc.send([{**read, "id": number} for number in range(2)])).json()
        told = next(answer["error"] for answer in answers if "error" in answer)
        assert (told["code"], told["data"]["retryable"]) == (-32603, True)
        assert bodies._held == 0
        assert not bodies._of

    async def test_large_answers_are_sent_in_pieces(self, rpc, monkeypatch):
        whole = await rpc.call("read_skill_file", {"name": NAMES[1], "path": "large.txt"})
        monkeypatch.setattr(limits, "SERVER_PIECE_BYTES", 7_000)
        assert await rpc.call("read_skill_file", {"name": NAMES[1], "path": "large.txt"}) == whole

    async def test_who_does_not_read_a_large_answer_holds_no_room(self, rpc, monkeypatch):
        monkeypatch.setattr(limits, "SERVER_PIECE_BYTES", 7_000)
        monkeypatch.setattr(limits, "SERVER_REQUEST_SECONDS", 0.1)
        monkeypatch.setattr(limits, "SERVER_REQUEST_RATE", 10_000_000)
        bodies = rpc.caller.application.services.executions.answers
        body = json.dumps(request("read_skill_file", {"name": NAMES[1], "path": "large.txt"}, id=1)).encode()
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)
            if len(sent) > 2:
                await asyncio.Event().wait()

        scope = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "path": "/rpc",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"skills.example.com")],
            "client": ("192.0.2.7", 1),
        }
        async with asyncio.timeout(20):
            await rpc.caller.application(scope, receive, send)
        assert sent[-1]["more_body"]
        assert (bodies._held, dict(bodies._of)) == (0, {})

    async def test_it_answers_wherever_the_application_is_mounted(self, rpc):
        mounted = type(rpc)(type(rpc.caller)(rpc.caller.application, root_path="/sub"))
        assert (await mounted.call("list_skills"))["skills"]
        kept = await mounted.caller.request("/blobs", {"Content-Type": "text/plain"}, method="POST", body=b"x")
        assert kept.fields["location"].startswith("/sub/blobs/blob:")
