"""The registry that the tests of its APIs call."""

import pytest
from tests.support.registry_site import RegistrySite


@pytest.fixture
async def site(tmp_path, monkeypatch):
    """Give a registry with two accounts, ann and bob, and the operator root."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    site.look()
    await site.account("ann")
    await site.account("bob")
    await site.account("root", is_operator=True)
    yield site
    await site.parts.downloads.close()
