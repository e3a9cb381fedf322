"""Whose pages may call, and take back: those of the server, of this machine, and of origins that are configured."""

import json

import pytest
from tests.support.invoking import look_descriptor, write_action
from tests.support.opened import open_ledger, open_tokens

from skillwire.model.execution import ExecutionSettings, RunSettings
from skillwire.server.configuration import ServerConfiguration
from skillwire.server.http import Origins, is_own_name

STRAY = (
    {"Host": "127.0.0.1:8000", "Origin": "http://evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},  # a name that was made to lead here
    {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
    {"Host": "127.0.0.1:8000", "Origin": "null"},
    {"Host": "127.0.0.1:8000", "Sec-Fetch-Site": "cross-site"},
)
HOSTED = ExecutionSettings(grant_all=True, concurrency=0)


@pytest.fixture(autouse=True)
def skills(tmp_path):
    write_action(tmp_path / "skills", "sum-up")
    write_action(tmp_path / "skills", "staff", more='access = "restricted"')
    return tmp_path / "skills"


@pytest.mark.spec("SSP-invoke-page")
@pytest.mark.parametrize("page", STRAY)
async def test_a_page_of_another_site_calls_nothing_and_is_told_why(serving, executor, page):
    caller = await serving()
    for name in ("sum-up", "staff"):
        refused = await caller.invoke(name, {}, page)
        assert (refused.status, refused.fields["access-control-allow-origin"]) == (403, "*")
        error = refused.json()["error"]
        assert (error["code"], error["details"]["reason"]) == ("PERMISSION_DENIED", "page_refused")
        assert f"a page of {page.get('Origin', 'another site')} calls" in error["message"]
        assert "Send a credential" in error["details"]["fix"]
        assert "origins below [rpc]" in error["details"]["fix"]
    assert open_ledger().count() == {}
    assert not executor.attempts


async def test_a_page_cannot_hide_behind_a_body_without_a_type(serving):
    """Such a request is sent by a browser without asking us first."""
    caller = await serving()
    body = b'{"caller":{"id":"x","type":"user"},"skill_id":"acme/sum-up","inputs":{}}'
    fields = {"Host": "127.0.0.1:8000", "Origin": "http://evil.example"}
    assert (await caller.request("/skills/sum-up/executions", fields, method="POST", body=body)).status == 403


@pytest.mark.spec("SSP-invoke-page")
@pytest.mark.parametrize("page", STRAY)
async def test_it_takes_nothing_back_and_may_follow_what_it_knows(serving, page):
    caller = await serving(HOSTED)
    accepted = await caller.invoke("sum-up")
    path = f"/executions/{accepted.json()['execution_id']}"
    refused = await caller.request(path, page, method="DELETE")
    assert (refused.status, refused.json()["error"]["details"]["reason"]) == (403, "page_refused")
    followed = await caller.get(path, page)
    assert (followed.status, followed.json()["status"]) == (200, "accepted")
    assert followed.fields["access-control-allow-origin"] == "*"
    assert (await caller.get(f"{path}/result", page)).status == 202
    assert (await caller.request(path, {"Host": "127.0.0.1:8000"}, method="DELETE")).status == 200


@pytest.mark.spec("SSP-invoke-page")
@pytest.mark.parametrize("page", STRAY)
async def test_who_shows_a_credential_may_call_from_any_page(serving, page):
    """No browser attaches one by itself: neither a field of ours nor what stands in the body."""
    caller = await serving(HOSTED)
    key = open_tokens().issue("robot", skills=["*"]).secret
    for fields in ({"X-API-Key": key}, {"Authorization": f"Bearer {key}"}):
        accepted = await caller.invoke("staff", {}, {**page, **fields})
        assert accepted.status == 202
        path = f"/executions/{accepted.json()['execution_id']}"
        assert (await caller.request(path, {**page, **fields}, method="DELETE")).status == 200
    assert (await caller.invoke("staff", {}, page, credentials={"api_key": key})).status == 202
    assert (await caller.invoke("staff", {}, page, credentials={"api_key": "sw_wrong"})).status == 401
    assert (await caller.invoke("staff", {}, {**page, "Cookie": f"session={key}"})).status == 403


async def test_programs_and_pages_of_ours_of_this_machine_and_of_known_sites_call(serving):
    runs = RunSettings(origins=("https://app.example.com",))
    caller = await serving(HOSTED, ServerConfiguration(runs=runs), base_url="http://skills.example.com")
    for page in (
        {},
        {"Origin": "https://app.example.com"},
        {"Origin": "http://skills.example.com"},
        {"Host": "localhost:8000", "Origin": "http://127.0.0.1:3000"},
        {"Host": "[::1]:8000", "Origin": "http://localhost"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert (await caller.invoke("sum-up", {}, page)).status == 202, page


@pytest.mark.parametrize("path", ["/skills/sum-up/executions", f"/executions/exec-{0:044}"])
async def test_any_page_may_ask_what_may_be_done(serving, path):
    caller = await serving()
    asked = {**STRAY[0], "Access-Control-Request-Method": "POST"}
    told = await caller.request(path, asked, method="OPTIONS")
    assert (told.status, told.fields["access-control-allow-origin"]) == (204, "*")
    assert "X-API-Key" in told.fields["access-control-allow-headers"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_the_paths_and_methods_of_a_descriptor_are_guarded_too(serving, skills, method):
    """A picture on a page is a GET without an origin; the browser says that another site's page wants it."""
    base = "https://skills.example.com"
    descriptor = look_descriptor(base, method)
    write_action(skills, "look", files={"descriptor.json": json.dumps(descriptor)})
    caller = await serving(HOSTED, base_url=base)
    for page in (STRAY[0], STRAY[3], STRAY[4]):
        answer = await caller.request("/look", {"Host": "skills.example.com", **page}, method=method)
        assert (answer.status, answer.json()["error"]["details"]["reason"]) == (403, "page_refused")
    for page in ({}, {"Origin": base}):
        answer = await caller.request("/look", {"Host": "skills.example.com", **page}, method=method)
        assert answer.status != 403


@pytest.mark.parametrize(
    ("site", "host", "is_let_in"),
    [
        ("same-origin", "box.example", True),
        ("none", "box.example", True),
        ("same-site", "localhost:8000", True),  # another port of this machine
        ("same-site", "box.example", False),  # another name of a domain, which may be another's
        ("cross-site", "localhost:8000", False),
        ("cross-site, none", "localhost:8000", False),
        ("else", "localhost:8000", False),
    ],
)
def test_a_request_that_names_no_page_is_judged_by_what_the_browser_says_of_its_site(site, host, is_let_in):
    headers = [(b"host", host.encode()), (b"sec-fetch-site", site.encode())]
    assert Origins((), "").let_in({"headers": headers}) is is_let_in


@pytest.mark.parametrize("name", ["localhost", "app.localhost", "127.0.0.1", "127.0.0.2", "[::1]", "box.example"])
def test_pages_of_each_name_under_which_this_machine_answers_may_act(name):
    headers = [(b"host", b"localhost:8000"), (b"origin", f"http://{name}:3000".encode())]
    assert Origins((), "").let_in({"headers": headers}) is is_own_name(name) is (name != "box.example")
