"""The pages of a registry's packages over ASGI: content, differences, states, and what never appears to whom."""

import re
from html import unescape
from urllib.parse import unquote, urljoin

import pytest
from blockbuster import blockbuster_ctx
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.console_browser import Browser
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire import limits
from skillwire.folder.differences import Budget, TooManyStepsError, compare_lines
from skillwire.model.package import Change, PackageName, Proof, State, Status

HOSTILE = "<img src=x onerror=alert(1)>"
NOTES = PackageName("ann", "notes")


@pytest.fixture
async def site(tmp_path, monkeypatch):
    """A registry with a package of three versions, and one of each access and state."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    for name in ("ann", "bob"):
        await site.account(name)
    await site.account("root", is_operator=True)
    run = "".join(f"print({number})\n" for number in range(40))
    versions = {
        "1.0.0": {"run.py": run, "old.txt": "gone\n", "data.bin": "\0\1"},
        "1.1.0": {
            "run.py": run.replace("print(20)", f"{HOSTILE} pay\u202eme # https://logs.example"),
            "data.bin": "\0\2",
        },
        "1.2.0-rc.1": {"run.py": run, "new.txt": ""},
    }
    for version, files in versions.items():
        archive = skill_archive("notes", version, f"See [it](run.py). {HOSTILE}\n", **files)
        assert (await site.publish("ann", archive)).status == 201
    for access in ("private", "restricted"):
        requires = 'requires = ["notes@^1", "capability:calendar"]'
        archive = skill_archive(f"{access}-plans", skill_toml=f'access = "{access}"\n{requires}\n')
        assert (await site.publish("ann", archive)).status == 201
    assert (await site.publish("bob", skill_archive("gone"))).status == 201
    site.look()
    yield site
    await site.parts.downloads.close()


@pytest.fixture
def browser(site):
    return Browser(site.application)


@pytest.fixture
async def member(site):
    """A browser of a person who signed in as ann."""
    browser = Browser(site.application)
    await browser.sign_in(site.tokens["ann"])
    return browser


async def text(browser, target, status=200):
    answer = await browser.get(target)
    assert answer.status == status, (target, answer.status)
    return answer.body.decode()


DIFF = "/packages/ann/notes/diff?from=1.0.0&to=1.1.0"
#: Where → what the page shows, and what it does not.
PAGES = {
    "/": (['href="./packages/ann/notes"', ">ann/notes<", 'href="./publishers"'], ["private-plans"]),
    "/packages/ann/notes": (
        [
            "<title>ann/notes 1.1.0 · package</title>",
            "skillwire add http://skills.example.com/@ann/notes<",
            "npx skills add http://skills.example.com/@ann/notes<",
            "npx clawhub install notes --registry http://skills.example.com<",
            'href="notes@1.1.0/files/run.py"',
            '<dd class="quiet">Not proven</dd>',
            "2 in 90 days",
            '<dt>Required by</dt><dd><a href="../../packages/ann/restricted-plans">ann/restricted-plans</a>',
            "Each account or address counts once a day",
        ],
        ["<img", "not the latest", "private-plans"],
    ),
    "/packages/ann/notes/versions": (
        [
            'href="../../../packages/ann/notes@1.0.0"',
            'href="../../../packages/ann/notes@1.1.0" aria-current="true"',
            'href="../../../api/registry/packages/ann/notes/1.1.0/download"',
            "Compare",
        ],
        ["private-plans"],
    ),
    "/packages/ann/notes@1.0.0/files": (['href="../../../packages/ann/notes@1.0.0/files/run.py"'], ["new.txt"]),
    "/packages/ann/notes@1.1.0/security": (
        [
            "HIDDEN_IN_FILE",
            "<dt>Hidden text</dt>",
            "<dt>Hosts</dt>",
            "<code>logs.example</code>",
            "<code>run.py</code>",
        ],
        ["name no tools", "<img"],
    ),
    "/packages/ann/notes@1.0.0": (
        ['This is not the latest version: <a href="../../packages/ann/notes">1.1.0</a>', "ann/notes@1.0.0<"],
        ["npx clawhub"],
    ),
    "/packages/ann/notes/versions?after=1.2.0-rc.1": (["Versions"], []),
    DIFF: (
        [
            "4 files changed in ann/notes.",
            '<h2 id="review-1">Asks for more</h2>',
            "<code>run.py: 1 hidden character, a direction override (U+202E)</code>",
            '<span class="mark removed">removed</span>',
            "17 unchanged lines",
            '<div class="added"><span></span><span>21</span><b>+</b><code>&lt;img src=x onerror=alert(1)&gt; pay[U+20',
            '<div class="removed"><span>21</span><span></span><b>-</b><code>print(20)</code></div>',
            "It is not a text.",
            'href="../../../packages/ann/notes@1.0.0/files/old.txt"',
        ],
        ["<img", "print(10)"],
    ),
    "/packages/ann/notes/diff?from=1.1.0&to=1.2.0-rc.1": (["It is empty.", "new.txt"], []),
    "/packages/ann/notes/diff?from=1.1.0&to=1.1.0": (["No files changed"], []),
    "/packages/ann/notes@1.1.0/files/run.py": (
        ['href="../../../../packages/ann/notes@1.1.0/raw/run.py"', '<div id="L40">', "pay[U+202E]me"],
        ["<img"],
    ),
    "/packages/ann/restricted-plans/files": (["Its content cannot be opened", "SKILL.md"], ["/files/SKILL.md"]),
    "/packages/ann/restricted-plans": (
        [
            '<span class="mark">restricted</span>',
            "Its content cannot be opened",
            '<a href="../../packages/ann/notes">notes@^1</a>',
            "<code>capability:calendar</code>",
        ],
        ["skillwire add", "/files/SKILL.md"],
    ),
    "/publishers": (['href="./publishers/ann"', 'href="./publishers/bob"', "Not proven"], []),
    "/publishers/ann": (["packages/ann/notes", "restricted-plans"], ["private-plans", "Members"]),
}


async def test_pages_show_packages_versions_differences_and_publishers(site, browser):
    for who in (b"a", b"b"):
        await site.store.count_download(NOTES, "1.0.0", "2026-11-24", who)
        await site.store.count_download(NOTES, "1.1.0", "2026-11-24", who)
    site.application.services.pages._clock = lambda: 1_795_600_000.0  # in the night after that day
    for target, (shown, hidden) in PAGES.items():
        page = await text(browser, target)
        assert [one for one in shown if one not in page] == [], target
        assert [one for one in hidden if one in page] == [], target


async def test_every_link_leads_to_a_page_also_below_any_path(site):
    mounted, tried = Browser(Starlette(routes=[Mount("/team", site.application)])), set()
    for target in PAGES:
        page = await text(mounted, f"/team{target}")
        for href in re.findall(r'(?:href|src)="([^"#]+)"', page):
            where = urljoin(f"http://h/team{target}", unescape(href))
            if where.startswith("http://h/") and where not in tried:
                tried.add(where)
                assert where.startswith("http://h/team/")
                assert (await mounted.get(where.removeprefix("http://h"))).status in {200, 303}, (target, href)
    assert len(tried) > 30


async def test_states_are_shown_with_their_reasons(site, browser):
    name, change = PackageName("bob", "gone"), Change(1.0, "root", "test", "bob/gone")
    cases = [
        (State(Status.DEPRECATED, f"Old. {HOSTILE}", "ann/notes"), ["is deprecated:", 'packages/ann/notes">ann/notes']),
        (State(Status.ARCHIVED), ["is archived."]),
        (State(Status.QUARANTINED, "It sends keys."), ["is in quarantine:", "It sends keys."]),
    ]
    for state, shown in cases:
        await site.store.change_package(name, [change], state=state)
        page = await text(browser, "/packages/bob/gone")
        assert [one for one in shown if one not in page] == []
        assert "<img" not in page
        assert f'<span class="mark {state.status}">' in await text(browser, "/publishers/bob")
    file = await browser.get("/packages/bob/gone@1.0.0/files/SKILL.md")
    assert (file.status, unquote(file.fields["location"])) == (303, "/packages/bob/gone@1.0.0")
    assert (await browser.get("/packages/bob/gone@1.0.0/raw/SKILL.md")).status == 303
    await site.store.change_package(name, [change], state=State())
    for one in (name, PackageName("ann", "notes")):
        await site.store.set_version_state(one, "1.0.0", State(Status.YANKED, "It loses notes."), change)
    page = await text(browser, "/packages/bob/gone")
    assert "Version 1.0.0 is yanked:" in page
    assert '1.0.0</a> <span class="mark yanked">yanked</span>' in await text(browser, DIFF)
    assert "It loses notes." in page
    assert "skillwire add" not in page


async def test_a_private_package_is_nowhere_but_for_its_members(site, browser, member):
    # The names differ by one word that is like no public one, since pages propose similar names.
    private = {
        "/packages/ann/private-plans": "/packages/ann/private-plums",
        "/packages/ann/private-plans@1.0.0": "/packages/ann/private-plums@1.0.0",
        "/packages/ann/private-plans@1.0.0/files/SKILL.md": "/packages/ann/private-plums@1.0.0/files/SKILL.md",
        "/packages/ann/private-plans/security": "/packages/ann/private-plums/security",
        "/packages/ann/private-plans@1.0.0/raw/SKILL.md": "/packages/ann/private-plums@1.0.0/raw/SKILL.md",
        "/packages/ann/private-plans/diff?from=1.0.0&to=1.0.0": "/packages/ann/private-plums/diff?from=1.0.0&to=1.0.0",
        "/ann/private-plans": "/ann/private-plums",
    }
    await site.account("eve")
    stranger = Browser(site.application)
    await stranger.sign_in(site.tokens["eve"])
    for target, unknown in private.items():
        for other in (browser, stranger):
            answers = [await other.get(one) for one in (target, unknown)]
            assert [one.status for one in answers] == [404, 404]
            assert answers[0].body == answers[1].body
            own = {"etag": "", "ratelimit-remaining": "", "ratelimit-reset": ""}
            assert {**answers[0].fields, **own} == {**answers[1].fields, **own}
        assert (await member.get(target)).status in {200, 303}
    for target in ("/", "/?q=plans", "/hits?q=private", "/publishers/ann", "/packages/ann/notes"):
        for other in (browser, stranger):
            assert "private-plans" not in await text(other, target)
        assert "private-plans" in await text(member, target)
    assert "<dt>ann</dt><dd>owner</dd>" in await text(member, "/publishers/ann")
    assert "/files/SKILL.md" in await text(member, "/packages/ann/restricted-plans/files")
    assert "private-plans" not in await text(member, "/?q=zebra")
    by_token = await site.get("/packages/ann/private-plans", {"Authorization": f"Bearer {site.tokens['ann']}"})
    assert (by_token.status, by_token.fields["cache-control"]) == (200, "no-store")


async def test_pages_for_a_principal_are_kept_by_no_cache(browser, member):
    for target in ("/", "/packages/ann/notes", DIFF, "/publishers", "/publishers/ann", "/packages/ann/none"):
        public, private = await browser.get(target), await member.get(target)
        assert {"Cookie", "Authorization", "X-API-Key"} <= set(public.fields["vary"].split(", "))
        assert (private.fields["cache-control"], "etag" in private.fields) == ("no-store", False)
        assert {"Cookie", "Authorization"} <= set(private.fields["vary"].split(", "))
        if public.status == 200:
            assert (await browser.get(target, {"if-none-match": public.fields["etag"]})).status == 304


async def test_bytes_of_any_version_are_sent_as_what_no_browser_executes(site, browser):
    for blob in (site.parts.downloads._blobs.directory).rglob("*"):  # those of old versions are swept
        if blob.is_file():
            blob.unlink()
    answer = await browser.get("/packages/ann/notes@1.0.0/raw/old.txt")
    assert (answer.body, answer.fields["content-type"]) == (b"gone\n", "text/plain; charset=utf-8")
    assert "sandbox" in answer.fields["content-security-policy"]
    assert "immutable" in answer.fields["cache-control"]
    latest = await browser.get("/packages/ann/notes/raw/run.py")
    assert (latest.status, "immutable" in latest.fields["cache-control"]) == (200, False)
    assert "print(39)" in await text(browser, "/packages/ann/notes@1.0.0/files/run.py")


async def test_old_names_redirect_and_unknown_ones_are_not_found(site, browser):
    await site.call("POST", "/namespaces/ann/rename", {"to": "anna"}, by="root")
    site.look()
    for target, location in {
        "/packages/ann/notes@1.0.0/files/run.py": "/packages/anna/notes@1.0.0/files/run.py",
        DIFF: DIFF.replace("/ann/", "/anna/"),
        "/publishers/ann": "/publishers/anna",
        "/skills/notes": "/packages/anna/notes",
        "/anna/notes": "/packages/anna/notes",
    }.items():
        answer = await browser.get(target)
        assert (answer.status in {303, 308}, unquote(answer.fields["location"])) == (True, location)
    for target in (
        "/packages/anna/notes@9.9.9",
        "/packages/anna/notes@",
        "/packages/anna/notes@1.0.0/files/none",
        "/packages/anna/notes/diff?from=9.9.9",
        "/packages/A%20B/notes",
        "/publishers/none",
        "/publishers/..%2f",
    ):
        assert "Nothing is published here" in await text(browser, target, 404)


async def test_the_page_of_a_package_whose_name_another_one_has_shows_no_calls(site, browser):
    action = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
    for namespace in ("ann", "bob"):
        archive = skill_archive("adder", skill_toml=action, main_py="def main(args): ...\n")
        assert (await site.publish(namespace, archive)).status == 201
    site.look()
    assert "skillwire call http://skills.example.com/adder" in await text(browser, "/packages/ann/adder/call")
    taken = await text(browser, "/packages/bob/adder/call")
    assert "Another skill has this name here, so this one is not called." in taken
    assert "skillwire call" not in taken


async def test_the_list_is_sorted_by_changes_and_downloads(site, browser):
    for name in ("maps", "atlas"):
        assert (await site.publish("bob", skill_archive(name))).status == 201
    await site.store.count_download(PackageName("bob", "maps"), "1.0.0", "2026-11-24", b"a")
    site.look()
    for order, names in (
        ("", ["atlas", "bob/gone", "bob/maps", "ann/notes"]),
        ("updated", ["bob/atlas", "bob/maps", "bob/gone", "ann/notes"]),
        ("downloads", ["bob/maps", "bob/atlas", "bob/gone", "ann/notes"]),
    ):
        page = await text(browser, f"/?order={order}")
        places = [page.index(f">{name}</a>") if "/" in name else page.index(f"/{name}</a>") for name in names]
        assert places == sorted(places), order
        assert page.count('class="on" aria-current="true"') == 1
    assert "Most downloaded" in page


async def test_lists_are_paged_by_the_name_behind_which_they_go_on(browser, monkeypatch):
    for bound in ("PAGE_SKILLS", "PAGE_VERSIONS"):
        monkeypatch.setattr(limits, bound, 1)
    assert 'href="?after=ann" rel="next"' in await text(browser, "/publishers")
    assert "publishers/bob" in await text(browser, "/publishers?after=ann")
    assert 'href="?after=notes" rel="next"' in await text(browser, "/publishers/ann")
    assert 'rel="next"' not in await text(browser, "/publishers/ann?after=notes")
    assert 'href="?after=1.2.0-rc.1" rel="next"' in await text(browser, "/packages/ann/notes/versions")
    last = await text(browser, "/packages/ann/notes/versions?after=1.1.0")
    assert re.findall(r'<td><a href="[./]+/packages/ann/(notes@[^/"]+)"', last) == ["notes@1.0.0"]


async def test_the_proof_of_a_publisher_is_shown(site, browser):
    namespace = await site.store.namespace("ann")
    cases = {
        Proof("dns", "example.com", 1.0): "Proven by a DNS record of example.com",
        Proof("file", "example.com", 1.0): "Proven by a file at example.com",
        Proof("operator", "", 1.0): "Vouched for by an operator",
    }
    for proof, shown in cases.items():
        await site.store.update_namespace(namespace._replace(proof=proof), Change(1.0, "root", "test", "ann"))
        for target in ("/publishers", "/publishers/ann", "/packages/ann/notes"):
            assert shown in await text(browser, target)


async def test_no_page_blocks_the_event_loop(browser):
    with blockbuster_ctx("skillwire"):
        for target in PAGES:
            await browser.get(target)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("", "", ""),
        ("a\n", "a", ""),
        ("", "a\n\n", "+a +"),
        ("a\nb\nc\n", "a\nc\nd\n", " a -b  c +d"),
        ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "@2  3  4  5 +6"),
        ("x\u202e\n", "x\u202e\u202e\n", "-x[U+202E] +x[U+202E x2]"),
    ],
)
def test_lines_that_differ_are_shown_with_some_around_them(old, new, shown):
    assert " ".join(line.sign + line.text for line in compare_lines(old, new, Budget())) == shown


def test_comparing_ends_when_its_steps_are_used_up():
    budget, twins = Budget(), "\n".join(f"{number % 120}" for number in range(9_000))
    with pytest.raises(TooManyStepsError):
        list(compare_lines(twins, "\n".join(reversed(twins.split("\n"))), budget))
    assert -200 < budget.steps < 0


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ("PAGE_DIFF_BYTES", "It is too large to be compared here."),
        ("PAGE_DIFF_STEPS", "It has too many differences to be shown here."),
        ("PAGE_DIFF_LINES", "It has more changed lines than there is room for."),
    ],
)
async def test_files_beyond_the_bounds_of_a_page_are_listed_with_the_reason(browser, monkeypatch, bound, reason):
    monkeypatch.setattr(f"skillwire.folder.differences.limits.{bound}", 1)
    page = await text(browser, DIFF)
    assert reason in page
    assert "run.py" in page
    assert '<div class="added">' not in page
