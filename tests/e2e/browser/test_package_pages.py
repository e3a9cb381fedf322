"""The pages of packages in Chromium: no barrier, nothing too wide, and all of it without a script and by keyboard."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect
from tests.support.browser import TOO_WIDE, violations
from tests.support.publishing import ServeProcess
from tests.support.registry_site import RegistrySite, skill_files, tar_gz

from skillwire.model.package import Change, PackageName, Proof, State, Status

pytestmark = pytest.mark.deep
PACKAGE = "/packages/ann/notes"
PAGES = {
    "list": "/",
    "package": PACKAGE,
    "versions": f"{PACKAGE}/versions",
    "security": f"{PACKAGE}/security",
    "yanked": f"{PACKAGE}@1.0.0",
    "quarantined": "/packages/ann/bad",
    "restricted": "/packages/ann/plans",
    "differences": f"{PACKAGE}/diff?from=1.0.0&to=1.1.0",
    "file": f"{PACKAGE}@1.1.0/files/scripts/run.py",
    "publishers": "/publishers",
    "publisher": "/publishers/ann",
    "absent": "/packages/ann/secret",
}
MEMBERS = {"their list": "/", "their publisher": "/publishers/ann", "private": "/packages/ann/secret"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory, chromium):  # noqa: ARG001  # without a browser nothing needs to be served
    """Serve a registry with packages of each access and state; give its address and a token of a member."""
    root = tmp_path_factory.mktemp("registry")

    async def publish():
        site = RegistrySite(root)
        token = await site.account("ann")
        run = "".join(f"print({number})  # a line that is longer than any phone is wide\n" for number in range(60))
        for version, text in (("1.0.0", run), ("1.1.0", run.replace("print(30)", "<b>pay</b>\u202eme"))):
            files = {**skill_files("notes", version, "# Use\n\nSee [it](scripts/run.py).\n"), "scripts/run.py": text}
            assert (await site.publish("ann", tar_gz(files))).status == 201
        for name, access in (("plans", "restricted"), ("secret", "private"), ("bad", "public")):
            files = skill_files(name, skill_toml=f'access = "{access}"\n')
            assert (await site.publish("ann", tar_gz(files))).status == 201
        change, notes, bad = (
            Change(1.0, "ann", "test", "ann/notes"),
            PackageName("ann", "notes"),
            PackageName("ann", "bad"),
        )
        await site.store.set_version_state(notes, "1.0.0", State(Status.YANKED, "It loses notes."), change)
        await site.store.change_package(bad, [change], state=State(Status.QUARANTINED, "It sends keys."))
        namespace = await site.store.namespace("ann")
        await site.store.update_namespace(namespace._replace(proof=Proof("dns", "example.com", 1.0)), change)
        for day in ("2026-11-23", "2026-11-24"):
            await site.store.count_download(notes, "1.1.0", day, b"somebody")
        return token

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKILLWIRE_HOME", str(root / "home"))
        with ThreadPoolExecutor(1) as pool:  # the browser's driver runs a loop in this thread
            token = pool.submit(asyncio.run, publish()).result()
    with ServeProcess("--registry", home=root / "home") as server:
        server.wait_for(lambda ready: ready.get("revision"))
        yield f"http://127.0.0.1:{server.port}", token


@pytest.mark.parametrize(("width", "theme"), [(390, "light"), (1280, "dark"), (390, "dark"), (1280, "light")])
def test_no_page_has_a_barrier_or_is_wider_than_the_screen(visit, registry, width, theme):
    root, token = registry
    page = visit("/", root=root, width=width, theme=theme)
    for targets in (PAGES, MEMBERS):
        if targets is MEMBERS:
            page.goto(f"{root}/login?next=/publishers")
            page.get_by_role("textbox", name="Token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/publishers")
        for name, target in targets.items():
            page.goto(root + target)
            assert page.evaluate(TOO_WIDE) <= 0, name
            assert violations(page) == [], name


def test_without_a_script_and_by_keyboard_versions_are_compared(visit, registry):
    page = visit("/", root=registry[0], script=False)
    page.get_by_role("link", name="ann/notes").click()
    page.get_by_text("By day").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Versions", exact=True).click()
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/diff?from=1.0.0&to=1.1.0")
    assert page.locator(".added code").all_inner_texts()[-1].startswith("<b>pay</b>[U+202E]me")
    page.get_by_role("link", name="scripts/run.py").nth(1).click()
    expect(page.locator(".lines > div")).to_have_count(60)
    page.get_by_role("link", name="Publishers", exact=True).first.click()
    page.get_by_role("link", name="ann", exact=True).click()
    expect(page.get_by_text("Proven by a DNS record of example.com")).to_be_visible()
    page.wait_for_load_state()
    assert page.get_by_text("secret").count() == 0


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_console_is_linked_on_every_screen(visit, registry, width):
    root, _ = registry
    page = visit(PACKAGE, root=root, width=width)
    links = page.get_by_label("Site").get_by_role("link")
    shown = [link.inner_text() for link in links.all() if link.is_visible()]
    index = [] if width < 600 else ["Index for agents"]
    assert shown == ["All skills", "Publishers", *index, "Console", "Account"]
    page.get_by_role("link", name="Console").click()
    page.wait_for_url("**/login?next=*")
