"""Executions and tasks in Chromium: signing in, pages that stay live, filters, a timeline, a task from claim to end."""

import json
import re

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.console_site import ConsoleServer, make_key
from tests.support.opened import open_tokens
from tests.support.publishing import write_skill

from skillwire.model.execution import Failure, Priority

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("home_of_the_site")]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> pay\u202eme"
LONG_TEXT = b'"' + b"x" * 900 + b'"'
TASK = {
    "title": "Approve the refund for order 48213",
    "description": f"A customer asks for 84.50 EUR back.\n{HOSTILE}",
    "output": {
        "type": "object",
        "required": ["decision", "amount", "reason"],
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": ["approve", "refuse"]},
            "amount": {"type": "number", "title": "Amount in EUR", "minimum": 0, "maximum": 84.5},
            "reason": {"type": "string", "title": "Reason", "minLength": 3},
            "tags": {"type": "array", "title": "Tags", "items": {"type": "string", "enum": ["late", "damaged"]}},
            "notify": {"type": "boolean", "title": "Tell the shop"},
            "extra": {"type": "object", "title": "Anything else"},
        },
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve two skills and some executions of them; give what changes them."""
    root = tmp_path_factory.mktemp("console")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLWIRE_HOME", str(root / "home"))
        make_key("first")
        write_skill(root / "skills", "report")
        with ConsoleServer([root / "skills"], root / "blobs") as server:
            fill(server)
            server.home, server.first_page = str(root / "home"), "/executions"
            yield server


def fill(server):
    for number in range(60):
        server.accept(age=900 - number, skill=f"book-{number % 3}", executor="python", caller_id="agent-7")
        claim = server.begin(age=890 - number)
        if number % 10 == 9:
            server.fail(claim, Failure("exception", f"ValueError: {HOSTILE}"), age=880 - number)
        else:
            server.complete(claim, age=880 - number)


@pytest.fixture(scope="module")
def keys(site):  # noqa: ARG001  # the keys are kept in its state folder
    return {
        name: make_key(name, *scopes) for name, scopes in {"ann": ["operator"], "tom": ["tasks"], "eve": []}.items()
    }


def rows(page):
    return page.locator(".runs tbody tr")


def live(page):
    expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
    return page


def new_task(site, title=TASK["title"], **fields):
    task = json.dumps({**TASK, "title": title}).encode()
    inputs = json.dumps({"order": 48213, "note": HOSTILE}).encode()
    return site.accept(
        skill="approve-refund", executor="human", task=task, inputs=inputs, **{"timeout": 7200.0, **fields}
    )


def test_who_is_not_signed_in_signs_in_and_gets_where_they_wanted(visit, site, keys):
    page = visit("/executions?status=failed", root=site.address)
    assert page.url == f"{site.address}/login?next=%2Fexecutions%3Fstatus%3Dfailed"
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type("sw_nonsense")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The key is not valid on this server")).to_be_visible()
    expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("API key").fill(keys["ann"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions?status=failed")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert keys["ann"].partition("_")[2][17:] not in cookie["value"]
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    assert page.context.cookies() == []
    page.goto(f"{site.address}/executions")
    assert "/login" in page.url


def test_an_execution_appears_and_changes_while_somebody_looks(enter, site):
    page = live(enter())
    page.evaluate("window.still = true")
    execution = site.accept(skill="fresh-skill", trace_id="trace-live")
    row = page.locator(f'tr[data-key="{execution}"]')
    expect(row).to_contain_text("Waiting")
    row.get_by_role("link").focus()
    claim = site.begin()
    expect(row).to_contain_text("Running")
    expect(row.get_by_role("link")).to_be_focused()
    expect(row.locator("[data-tick=took]")).to_have_text(re.compile(r"^[1-9]\d* s$"))
    site.complete(claim)
    expect(row).to_contain_text("Completed")
    assert page.evaluate("window.still") is True
    assert rows(page).count() == 50


def test_the_list_can_be_held_still(enter, site):
    page = live(enter("/executions?skill=held"))
    page.get_by_role("button", name=re.compile("^Live")).click()
    expect(page.get_by_role("button", name=re.compile("^Paused"))).to_be_focused()
    site.accept(skill="held", executor="function")
    page.wait_for_timeout(700)
    assert rows(page).count() == 0
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)


def test_a_session_that_is_ended_elsewhere_ends_the_live_page(enter, site, keys):
    keys["gone"] = make_key("gone", "operator")
    page = live(enter("/executions", as_="gone"))
    open_tokens().revoke(keys["gone"].split("_")[1])
    site.accept(skill="tick", executor="function")
    page.wait_for_url("**/login?next=**")


def test_filters_narrow_the_list_and_say_how_many_there_are(enter):
    page = enter("/executions?skill=book-2")
    chips = page.get_by_role("navigation", name="Status")
    expect(chips.get_by_role("link", name="Failed 2")).to_be_visible()
    chips.get_by_role("link", name="Failed 2").click()
    expect(rows(page)).to_have_count(2)
    assert "status=failed" in page.url
    assert "skill=book-2" in page.url
    page.get_by_label("Skill").fill("nothing-of-this-name")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No execution matches.")).to_be_visible()
    page.get_by_role("link", name="Show all executions").click()
    page.get_by_label("Run by").select_option("Function")
    page.get_by_label("Caller").fill("anna")
    page.keyboard.press("Enter")
    page.wait_for_url("**caller=anna&executor=function**")


def test_the_list_is_paged(enter):
    page = enter("/executions?caller=anna")
    first = set(page.locator(".runs tr[data-key]").evaluate_all("all => all.map(one => one.dataset.key)"))
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**after=**")
    second = set(page.locator(".runs tr[data-key]").evaluate_all("all => all.map(one => one.dataset.key)"))
    assert len(first) == 50
    assert second
    assert not first & second
    page.get_by_role("link", name="Newest").click()
    expect(rows(page)).to_have_count(50)


def test_a_row_leads_to_the_timeline_which_follows_what_happens(enter, site):
    fields = {"skill": "retried", "max_attempts": 3, "trace_id": "0af7651916cd43dd", "priority": Priority.HIGH}
    execution = site.accept(age=60, inputs=json.dumps({"text": HOSTILE}).encode(), **fields)
    site.fail(site.begin(age=50), Failure("upstream", f"It answered 503 {HOSTILE}", is_passing=True), age=30)
    page = live(enter("/executions?skill=retried"))
    page.locator(f'tr[data-key="{execution}"]').click(position={"x": 500, "y": 10})
    page.wait_for_url(f"**/executions/{execution}")
    steps = page.locator(".timeline li")
    expect(steps).to_have_count(3)
    expect(page.locator(".state")).to_contain_text("Waiting again")
    claim = site.begin(worker="worker-2")
    expect(steps).to_have_count(4)
    expect(steps.last).to_contain_text("Taken up attempt 2 by worker-2")
    expect(page.locator(".state")).to_contain_text("left")
    site.complete(claim, json.dumps({"said": HOSTILE}).encode())
    expect(page.get_by_role("heading", name="Output")).to_be_visible()
    expect(page.get_by_label("Output as JSON")).to_contain_text("[U+202E]")
    assert page.title() == "retried · Completed · skillwire"
    widths = page.locator(".timeline rect").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert all(width >= 1 for width in widths)
    assert page.locator("[onerror], [onclick], [style], #live script").count() == 0
    page.get_by_role("link", name="0af7651916cd43dd").click()
    expect(rows(page)).to_have_count(1)


def test_what_programs_are_told_at_the_same_address_stays_theirs(enter, site):
    execution = site.accept(skill="shared", executor="function", caller="address 127.0.0.1")
    page = enter(f"/executions/{execution}")
    expect(page.get_by_role("heading", name="shared")).to_be_visible()
    answer = page.request.get(f"{site.address}/executions/{execution}", headers={"Accept": "application/json"})
    assert answer.json()["status"] == "accepted"


def test_cancelling_takes_two_steps_and_is_seen(enter, site):
    execution = site.accept(skill="cancelled-one", executor="function")
    page = live_page = enter(f"/executions/{execution}")
    expect(page.get_by_role("button", name="Cancel this execution")).to_be_hidden()
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel this execution").click()
    page.wait_for_url("**notice=cancelled")
    expect(page.get_by_role("status")).to_have_text("The execution was cancelled.")
    expect(page.locator(".state")).to_contain_text("Cancelled")
    assert live_page.get_by_text("Cancel…").count() == 0
    assert site.find(execution).timeline[-1].by == "ann"


def test_a_task_is_claimed_corrected_and_handed_in(enter, site):
    site.end_tasks()  # those of other tests, whatever the order
    page = live(enter("/inbox", as_="tom"))
    expect(page.get_by_role("link", name="Open 0")).to_be_visible()
    execution = new_task(site)
    page.get_by_role("link", name=TASK["title"]).click()
    page.get_by_role("button", name="Claim this task").click()
    expect(page.get_by_role("status")).to_have_text("The task is yours.")
    page.get_by_label("Amount in EUR").fill("a lot")
    page.get_by_label("Reason").fill("It was\nlate.")
    page.get_by_label("late").check()
    page.get_by_label("Anything else").fill("{no")
    page.get_by_role("button", name="Hand in").click()
    alert = page.get_by_role("alert")
    expect(alert).to_be_focused()
    expect(alert).to_contain_text("Decision is required")
    expect(page.get_by_label("Amount in EUR")).to_have_value("a lot")
    expect(page.get_by_label("Amount in EUR")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Reason")).to_have_value("It was\nlate.")
    expect(page.get_by_label("late")).to_be_checked()
    page.get_by_role("link", name="Amount in EUR").click()
    page.keyboard.press("Tab")
    page.get_by_label("Amount in EUR").fill("99")
    page.get_by_label("approve").check()
    page.get_by_label("Anything else").fill("")
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_role("alert")).to_contain_text("Amount in EUR")  # more than the schema allows
    page.get_by_label("Amount in EUR").fill("84.5")
    page.get_by_role("button", name="Hand in").click()
    page.wait_for_url("**notice=completed")
    expect(page.get_by_role("status")).to_have_text("The task was handed in.")
    handed_in = json.loads(site.find(execution).output)
    assert handed_in == {"decision": "approve", "amount": 84.5, "reason": "It was\nlate.", "tags": ["late"]}
    page.goto(f"{site.address}/inbox/{execution}")
    expect(page.get_by_role("heading", name="What was handed in")).to_be_visible()


def test_a_task_is_declined_with_a_reason(enter, site):
    execution = new_task(site)
    page = enter(f"/inbox/{execution}", as_="tom")
    page.get_by_role("button", name="Claim this task").click()
    page.get_by_text("Decline…").click()
    page.get_by_role("button", name="Decline this task").click()
    expect(page.get_by_text("Say why.")).to_be_visible()
    page.get_by_label("Why").fill(f"It is not mine to decide. {HOSTILE}")
    page.get_by_role("button", name="Decline this task").click()
    page.wait_for_url("**notice=rejected")
    assert site.find(execution).failure.reason == "rejected"


def test_a_task_is_given_back_and_taken_by_another(enter, site):
    site.end_tasks()  # as above
    execution = new_task(site)
    page = enter(f"/inbox/{execution}", as_="tom")
    page.get_by_role("button", name="Claim this task").click()
    page.get_by_role("button", name="Give it back").click()
    page.wait_for_url("**/inbox?notice=released")
    site.claim_task(execution, "bob")
    page.get_by_role("link", name=re.compile("With others 1")).click()
    expect(page.locator(".tasks")).to_contain_text("with bob")
    page.get_by_role("link", name=TASK["title"]).click()
    expect(page.get_by_text("bob is at it.")).to_be_visible()
    assert page.get_by_role("button", name="Claim this task").count() == 0


def test_a_key_without_scopes_sees_its_own_executions_and_no_inbox(enter, site, keys):
    own = site.accept(skill="of-eve", executor="function", caller=f"identity {keys['eve'].split('_')[1]}")
    other = site.accept(skill="of-anna", executor="function")
    page = enter("/executions", as_="eve")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("of-eve")
    assert page.get_by_role("link", name="Inbox").count() == 0
    page.goto(f"{site.address}/executions/{other}")
    expect(page.get_by_role("heading", name="There is no such execution here")).to_be_visible()
    page.goto(f"{site.address}/executions/{own}")
    expect(page.get_by_role("heading", name="of-eve")).to_be_visible()
    page.goto(f"{site.address}/inbox")
    expect(page.get_by_role("heading", name="Your key does not open the inbox")).to_be_visible()


def test_without_a_script_everything_is_there_but_the_movement(enter, site):
    execution = site.accept(skill="still", executor="function")
    page = enter("/executions?skill=still", script=False)
    expect(rows(page)).to_have_count(1)
    page.get_by_role("link", name="Refresh").click()
    page.get_by_role("link", name="still").click()
    expect(page.locator(".state")).to_contain_text("Waiting")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel this execution").click()
    expect(page.locator(".state")).to_contain_text("Cancelled")
    task = new_task(site)
    page.goto(f"{site.address}/inbox/{task}")
    page.get_by_role("button", name="Claim this task").click()
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_role("alert")).to_contain_text("Some answers do not fit")
    page.get_by_label("refuse").check()
    page.get_by_label("Amount in EUR").fill("0")
    page.get_by_label("Reason").fill("No receipt")
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_role("status")).to_have_text("The task was handed in.")
    page.get_by_role("button", name="Sign out").click()
    assert site.find(task).status.value == "completed"
    assert site.find(execution).status.value == "failed"


def test_the_keyboard_is_enough_for_a_task(enter, site):
    task = new_task(site)
    page = enter(f"/inbox/{task}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Breadcrumb").get_by_role("link", name="Inbox")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Claim this task")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_label("approve").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("refuse")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.type("1")
    page.keyboard.press("Tab")
    page.keyboard.type("Enough")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Hand in").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**notice=completed")
    assert json.loads(site.find(task).output)["tags"] == ["late"]


@pytest.fixture
def targets(site, keys):  # noqa: ARG001  # the keys are there when tasks are claimed with them
    """Return the page of each kind, with what is long, hostile or urgent in it."""
    failed = site.accept(skill="a-skill-with-a-name-as-long-as-names-may-be-and-not-one-letter-mo", inputs=LONG_TEXT)
    site.fail(site.begin(worker="w" * 120), Failure("exception", "E" * 400, details={"trace": "t" * 300}))
    running = site.accept(skill="running", inputs=json.dumps(list(range(200))).encode())
    site.begin()
    mine, open_ = new_task(site), new_task(site, age=7000)
    site.claim_task(mine, "ann", has_key=True)
    return {
        "list": "/executions",
        "failed": f"/executions/{failed}",
        "task": f"/inbox/{mine}",
        "inbox": "/inbox",
        "no execution": "/executions?skill=none",
        "bad cursor": "/executions?after=none",
        "running": f"/executions/{running}",
        "mine": "/inbox?tray=mine",
        "ended": "/inbox?tray=ended",
        "open": f"/inbox/{open_}",
        "signed in": "/login",
        "absent": "/inbox/none",
    }


def check_pages(page, site, targets):
    for name, target in targets.items():
        page.goto(site.address + target)
        for fold in page.locator("details").all():
            fold.evaluate("one => { one.open = true }")
        assert page.evaluate(TOO_WIDE) <= 0, name
        assert violations(page) == [], name


def test_the_login_has_no_barrier_and_is_not_wider_than_the_screen(visit, site):
    for width, theme in ((360, "light"), (1280, "dark")):
        page = visit("/login", root=site.address, width=width, theme=theme)
        assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])


@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1280, "dark")])
def test_no_page_has_a_barrier_or_is_wider_than_the_screen(enter, site, targets, width, theme):
    page = enter(width=width, theme=theme)
    check_pages(page, site, targets)
    page.goto(site.address + targets["task"])
    page.get_by_role("button", name="Hand in").click()
    page.wait_for_load_state()
    expect(page.get_by_role("alert")).to_be_visible()
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])


@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (768, "light"), (1280, "light")])
def test_the_other_widths_and_themes_have_none_either(enter, site, targets, width, theme):
    page = enter(width=width, theme=theme)
    check_pages(page, site, {name: targets[name] for name in ("list", "failed", "task")})


def test_the_inbox_on_a_phone_shows_the_urgent_first_and_announces_new_tasks(site, enter):
    site.end_tasks()
    for title, priority in (("Pick 2 lamps", Priority.NORMAL), ("Pick 1 mug", Priority.HIGH)):
        new_task(site, title, priority=priority)
    page = enter("/inbox", as_="tom")
    page.set_viewport_size({"width": 390, "height": 800})
    titles = page.locator(".tasks a")
    expect(titles).to_have_text(["Pick 1 mug", "Pick 2 lamps"])
    expect(page.locator(".when time[data-local]").first).not_to_contain_text("UTC")
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])
    page.get_by_label("Title, skill or caller").fill("lamps")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(titles).to_have_text(["Pick 2 lamps"])
    page.add_init_script(
        "window.told = []; window.Notification = class { static permission = 'granted';"
        " constructor(text) { told.push(text); } }"
    )
    live(page).reload()
    live(page)
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    new_task(site, "Pick 3 lamps")
    expect(page.get_by_role("link", name="Pick 3 lamps")).to_be_visible()
    assert page.evaluate("told") == ["Pick 3 lamps"]
    page.get_by_role("link", name="Pick 3 lamps").click()
    page.wait_for_load_state()  # with its styles, which the sizes depend on
    claim = page.get_by_role("button", name="Claim this task")
    assert claim.bounding_box()["height"] >= 48
    places = [page.get_by_text(text).bounding_box()["y"] for text in ("What is given", "Claim this task")]
    assert places == sorted(places)
    assert (page.evaluate(TOO_WIDE), violations(page)) == (0, [])


def test_a_traceback_keeps_its_lines_and_can_be_copied(site, enter):
    lines = 'Traceback:\n  File "a.py", line 1\n\treturn x\n'
    site.accept(skill="report", executor="python")
    claim = site.begin()
    site.fail(claim, Failure("exception", "ValueError: x", details={"exception": "ValueError", "traceback": lines}))
    page = enter(f"/executions/{claim.execution_id}")
    shown = page.get_by_role("region", name="Traceback")
    assert shown.evaluate("one => [getComputedStyle(one).whiteSpace, one.textContent.trim()]") == [
        "pre",
        lines.strip(),
    ]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy Traceback").click()
    expect(page.get_by_role("button", name="Copied Traceback")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == lines.strip()
