"""What a page of another site can have done at a server of this machine, in Chromium: nothing but reading.

A server that is not published beyond this machine is not even read.

The other site is real as far as the browser knows: its name leads to a server of the test, or to ours (DNS rebinding).
"""

import shutil

import pytest
from playwright.sync_api import Error as PlaywrightError
from tests.support.browser import PATIENCE
from tests.support.command import run_command
from tests.support.invoking import write_action
from tests.support.loopback_server import Handler, LoopbackServer
from tests.support.opened import open_ledger
from tests.support.publishing import ServeProcess

pytestmark = pytest.mark.deep
CHROMIUM = shutil.which("chromium")
CALL = """async ({url, key, type}) => {
  const asked = {method: 'POST', headers: {}, body: new Blob([JSON.stringify(
    {caller: {id: 'x', type: 'user'}, skill_id: 'local/echo', inputs: {}})])};
  if (type) asked.headers['Content-Type'] = type;
  if (key) asked.headers['X-API-Key'] = key;
  const answer = await fetch(url + '/skills/echo/executions', asked);
  return [answer.status, await answer.json()];
}"""
BLIND = """async (url) => {
  await fetch(url + '/skills/echo/executions', {method: 'POST', mode: 'no-cors', body: new Blob([JSON.stringify(
    {caller: {id: 'x', type: 'user'}, skill_id: 'local/echo', inputs: {}})])});
}"""
READ = "async (url) => (await (await fetch(url)).json()).skills.map(skill => skill.name)"
TAKE_BACK = "async (url) => (await fetch(url, {method: 'DELETE'})).status"
FOLLOW = "async (url) => (await (await fetch(url)).json()).status"


class Page(Handler):
    def do_GET(self):
        self.send(200, b"<!doctype html><title>x</title>", "text/html")


@pytest.fixture
def other_site():
    """Serve a page; give its port."""
    with LoopbackServer(Page) as server:
        yield server.host.partition(":")[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve a skill that anybody may call, and that nobody runs; give the server and its state folder."""
    root = tmp_path_factory.mktemp("others")
    write_action(root / "skills", "echo", tables='[executor]\nkind = "human"\n')
    with ServeProcess(root / "skills", "--base-url", "https://skills.example.com", home=root / "home") as server:
        yield server, root / "home"


@pytest.fixture(scope="module")
def unpublished(tmp_path_factory, chromium):  # noqa: ARG001  # same
    """Serve the same for this machine alone; give the server."""
    root = tmp_path_factory.mktemp("unpublished")
    write_action(root / "skills", "echo", tables='[executor]\nkind = "human"\n')
    with ServeProcess(root / "skills", home=root / "home") as server:
        yield server


@pytest.fixture(scope="module")
def key(served):
    made = run_command("token", "create", "robot", "--skill", "*", "-q", env={"SKILLWIRE_HOME": str(served[1])})
    return made.out.strip()


@pytest.fixture
def look(chromium):
    """Return what opens a page in a browser that finds each name of ``.example`` on this machine."""
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules], timeout=PATIENCE)

    def look(address):
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        return page

    yield look
    browser.close()


def test_a_page_of_another_site_has_nothing_done_unless_it_shows_a_key(served, key, look, other_site, monkeypatch):
    server, home = served
    monkeypatch.setenv("SKILLWIRE_HOME", str(home))
    ours = f"http://127.0.0.1:{server.port}"
    mine = server.get(
        "/skills/echo/executions",
        {"Content-Type": "application/json"},
        method="POST",
        body='{"caller":{"id":"x","type":"user"},"skill_id":"local/echo","inputs":{}}',
    ).json()
    execution = f"{ours}/executions/{mine['execution_id']}"
    page = look(f"http://evil.example:{other_site}/")
    assert page.evaluate(READ, f"{ours}/.well-known/agent-skills/index.json") == ["echo"]
    for media_type in ("", "application/json"):  # sent without a question, and after one
        status, told = page.evaluate(CALL, {"url": ours, "key": "", "type": media_type})
        assert (status, told["error"]["details"]["reason"]) == (403, "page_refused")
        assert f"http://evil.example:{other_site}" in told["error"]["message"]
    page.evaluate(BLIND, ours)
    assert page.evaluate(TAKE_BACK, execution) == 403
    assert page.evaluate(FOLLOW, execution) == "accepted"
    assert sum(open_ledger().count().values()) == 1
    status, told = page.evaluate(CALL, {"url": ours, "key": key, "type": "application/json"})
    assert (status, told["status"]) == (202, "accepted")


def test_a_name_that_was_made_to_lead_here_has_nothing_done(served, look):
    server, _ = served
    ours = f"http://rebound.example:{server.port}"
    page = look(ours)
    status, told = page.evaluate(CALL, {"url": "", "key": "", "type": "application/json"})
    assert (status, told["error"]["details"]["reason"]) == (403, "page_refused")


def test_a_server_that_is_not_published_is_not_read_by_other_sites_or_other_names(unpublished, look, other_site):
    path = f":{unpublished.port}/.well-known/agent-skills/index.json"
    with pytest.raises(PlaywrightError, match="Failed to fetch"):
        look(f"http://evil.example:{other_site}/").evaluate(READ, f"http://127.0.0.1{path}")
    rebound = look(f"http://rebound.example{path}")
    assert "HOST_UNKNOWN" in rebound.content()
    assert look(f"http://localhost:{other_site}/").evaluate(READ, f"http://127.0.0.1{path}") == ["echo"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_this_machine_calls(unpublished, look, other_site, host):
    page = look(f"http://{host}:{other_site}/")
    url = f"http://127.0.0.1:{unpublished.port}"
    assert page.evaluate(CALL, {"url": url, "key": "", "type": "application/json"})[0] == 202
