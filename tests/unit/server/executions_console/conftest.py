"""A console over a desk in memory, asked as a browser asks."""

import pytest
from tests.support.console_browser import Browser
from tests.support.console_site import ConsoleSite
from tests.support.fake_desk import FakeDesk
from tests.support.opened import open_tokens
from tests.support.publishing import write_skill

from skillwire.executions.tasks import person_worker


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens()


@pytest.fixture
def desk():
    return FakeDesk()


@pytest.fixture
async def site(tmp_path, tokens, desk):  # noqa: ARG001  # made first, so that the state folder is the test's
    write_skill(tmp_path / "skills", "csv-profile")
    site = ConsoleSite([tmp_path / "skills"], tmp_path / "blobs", desk)
    await site.application.startup()
    await site.application.catalog.first(20)
    yield site
    await site.application.shutdown()


@pytest.fixture
def browser(site):
    return Browser(site)


@pytest.fixture
def enter(site):
    """Return what makes a browser in which somebody with these scopes is signed in."""

    async def enter(name="ann", *scopes):
        browser, issued = Browser(site), open_tokens().issue(name, scopes=scopes)
        browser.worker = person_worker(name, issued.token.token_id)
        answer = await browser.sign_in(issued.secret)
        assert answer.status == 303
        return browser

    return enter
