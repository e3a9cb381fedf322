"""The page that calls a skill, as a browser without a script sees it: who may call, what it shows, what it refuses."""

import re
from html import unescape

import pytest
import structlog
from tests.support.console_browser import Browser
from tests.support.invoking import failing, write_action
from tests.support.opened import open_ledger, open_tokens

from skillwire.model.execution import ExecutionSettings

HERE = {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}
INPUTS = """
[inputs.name]
required = true
example = "Ada"
description = "Who <b>is</b> greeted."
schema = { maxLength = 5 }
[inputs.times]
type = "integer"
required = true
schema = { minimum = 1 }
[inputs.words]
type = "array"
schema = { items = { type = "string" } }
[inputs.loud]
type = "boolean"
default = false
"""
PAGE = "/skills/greet/call"


@pytest.fixture(autouse=True)
def skills(tmp_path):
    write_action(tmp_path / "skills", "greet", tables=INPUTS)
    write_action(tmp_path / "skills", "keyed", tables='[auth]\ntype = "api_key"\n')
    write_action(tmp_path / "skills", "secret-plans", more='access = "private"')


@pytest.fixture
async def browser(serving):
    return Browser((await serving()).application)


async def run(browser, page=PAGE, fields=HERE, **typed):
    return await browser.post(page, {f"field:{name}": value for name, value in typed.items()}, fields)


async def test_the_form_begins_with_the_example_and_shows_what_came_of_a_call(browser, executor):
    form = (await browser.get(PAGE, HERE)).body.decode()
    assert 'name="field:name" type="text" inputmode="text" value="Ada"' in form
    assert 'name="field:times" type="text" inputmode="numeric" value="1"' in form
    assert "Who &lt;b&gt;is&lt;/b&gt; greeted." in form
    sent = await run(browser, name="Bob", times="2", words="a\r\nb c", loud="true")
    assert sent.status == 303
    where, fragment = sent.fields["location"].split("#")
    assert fragment == "result"
    assert executor.attempts[0].inputs == {"name": "Bob", "times": 2, "words": ["a", "b c"], "loud": True}
    shown = (await browser.get(where, HERE)).body.decode()
    assert 'value="Bob"' in shown
    assert re.search(r'badge completed">Completed', shown)
    assert "&#34;b c&#34;" in shown.partition('id="output-title"')[2]
    live = re.findall(r'data-live="\.\./\.\./(executions/[^"]+/live)"', shown)
    assert len(live) == 1
    execution = live[0].removesuffix("/live")
    assert (await browser.get(f"/{execution}/output.json", HERE)).json()["name"] == "Bob"
    for closed in (f"/{execution}", "/executions"):  # the console itself is for people with a key
        assert (await browser.get(closed, HERE)).fields["location"].startswith("/login")
    cancelled = await browser.post(f"/{execution}/cancel", {}, HERE)
    assert cancelled.fields["location"].startswith("/login")


async def test_the_form_has_the_default_of_an_input_and_says_it(serving, tmp_path):
    tables = """
    [inputs.currency]
    default = "EUR"
    example = "CHF"
    description = "The currency"
    [inputs.lines]
    type = "array"
    description = "Lines, each with price and quantity"
    """
    write_action(tmp_path / "skills", "total", tables=tables)
    page = (await Browser((await serving()).application).get("/skills/total/call", HERE)).body.decode()
    form = unescape(page.partition("<form")[2].partition("</form>")[0])
    assert ">EUR<" in form.replace("\n", "")
    assert "CHF" not in form
    assert 'The currency. Default: "EUR".' in form
    assert "each with price and quantity. As JSON." in form


async def test_every_wrong_input_is_shown_at_its_field_and_nothing_is_called(browser):
    answer = await run(browser, name="Barbara", times="x", words="", loud="")
    page = answer.body.decode()
    assert answer.status == 422
    assert "Some inputs do not fit. Nothing was called." in page
    assert 'id="field-0-wrong"' in page
    assert 'id="field-1-wrong">This must be a whole number.' in page
    assert 'value="Barbara"' in page
    assert (await run(browser)).body.decode().count('-wrong">This is required.') == 2
    assert open_ledger().count() == {}


async def test_a_failed_call_shows_its_message(browser, executor):
    executor.script = lambda _: failing(message="no <such> city")
    sent = await run(browser, name="Bob", times="2")
    page = (await browser.get(sent.fields["location"].partition("#")[0], HERE)).body.decode()
    assert "no &lt;such&gt; city" in page


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"host": "127.0.0.1:8000", "origin": "http://evil.example"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 403),  # a name that was made to lead here
        ({**HERE, "sec-fetch-site": "cross-site"}, 403),
        ({**HERE, "content-type": "text/plain"}, 415),
    ],
)
async def test_only_a_form_of_this_site_calls(browser, executor, fields, status):
    assert (await run(browser, fields=fields, name="Bob", times="2")).status == status
    assert not executor.attempts


async def test_who_may_not_call_is_told_how_to_sign_in_and_may_call_then(browser, executor):
    page = "/skills/keyed/call"
    shown = (await browser.get(page, HERE)).body.decode()
    assert "Calls of this skill need a key." in shown
    assert 'href="../../login?next=/skills/keyed/call"' in shown
    assert "<form" not in shown
    assert (await run(browser, page)).status == 403
    entered = await browser.sign_in(open_tokens().issue("ann").secret, following=page)
    assert entered.fields["location"] == page
    form = (await browser.get(page)).body.decode()
    token = form.partition('name="token" value="')[2].partition('"')[0]
    assert (await browser.post(page, {"token": "forged"})).status == 403
    sent = await browser.post(page, {"token": token})
    assert sent.status == 303
    where = sent.fields["location"].partition("#")[0]
    assert "Completed" in (await browser.get(where)).body.decode()
    stranger = Browser(browser.application)
    assert "Completed" not in (await stranger.get(where, HERE)).body.decode()
    assert len(executor.attempts) == 1


async def test_a_skill_without_a_grant_says_so_and_one_that_is_hidden_is_none(serving):
    browser = Browser((await serving(ExecutionSettings())).application)
    with structlog.testing.capture_logs() as log:
        shown = (await browser.get(PAGE, HERE)).body.decode()
        assert "The operator has not granted that this skill runs here." in shown
        assert not [one for one in log if one["event"].startswith("a call was refused")]
        assert (await run(browser, name="Bob", times="2")).status == 403
    assert [one["skill"] for one in log if one["event"] == "a call was refused: not granted"] == ["greet"]
    hidden, unknown = [
        await run(browser, f"/skills/{name}/call", name="Bob", times="2") for name in ("secret-plans", "secret-plant")
    ]
    assert hidden.status == 404
    assert hidden == unknown


async def test_an_absent_skill_proposes_similar_names_and_none_that_is_hidden(browser):
    for target, near in (("/skills/gret", ["greet"]), ("/skills/secret-plan", []), ("/skills/keyedd/files", ["keyed"])):
        answer = await browser.get(target)
        page = unescape(answer.body.decode())
        assert answer.status == 404
        assert re.findall(r'<a href="[./]*skills/[a-z-]+">([a-z-]+)</a>', page) == near
        assert "plans" not in page


async def test_the_output_of_a_call_that_failed_is_answered_as_absent(browser, executor):
    executor.script = lambda _: failing(message="no city")
    sent = await run(browser, name="Bob", times="2")
    execution = sent.fields["location"].partition("=")[2].partition("#")[0]
    answer = await browser.get(f"/executions/{execution}/output.json", HERE)
    assert answer.status == 404
    assert "text/html" in answer.fields["content-type"]


async def test_control_characters_of_an_example_are_escaped_in_what_people_paste(serving, tmp_path):
    hostile = r'example = "a\u001b[201~\ntouch x\n\u009b\u202e"'
    for name, kind in (("texts", "string"), ("lists", "array")):
        example = hostile if kind == "string" else hostile.replace('"a', '["a').replace('e"', 'e"]')
        write_action(tmp_path / "skills", name, tables=f'[inputs.one]\ntype = "{kind}"\n{example}\n')
    browser = Browser((await serving()).application)
    for name in ("texts", "lists"):
        page = unescape((await browser.get(f"/skills/{name}/call", HERE)).body.decode())
        copied = re.findall(r'<code>(.*?)</code></pre><button type="button" data-copy="snippet-', page, re.DOTALL)
        assert len(copied) >= 4
        assert not re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", "".join(copied))
        assert "touch x\n" not in "".join(copied)
