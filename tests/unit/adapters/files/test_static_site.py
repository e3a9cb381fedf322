"""Building a static site: what is reported of the whole."""

import pytest
from tests.support.invoking import write_action
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.adapters.files.static_site import SiteBuild, SiteOptions


@pytest.mark.parametrize(("most", "warned"), [(2, []), (1, ["INDEX_ENTRIES"])])
def test_more_skills_than_clients_read_are_built_with_a_warning(tmp_path, monkeypatch, most, warned):
    monkeypatch.setattr(limits, "INDEX_ENTRIES", most)
    for name in ("one", "two"):
        write_skill(tmp_path / "skills", name)
    write_skill(tmp_path / "skills", "three", {"skill.toml": 'access = "private"\n'})
    report = SiteBuild(SiteOptions((str(tmp_path / "skills"),), tmp_path / "site")).run(lambda _: None)
    assert [(one.code, one.level) for one in report.findings] == [(code, "warning") for code in warned]
    assert (report.public, report.errors) == (2, 0)
    assert report.changes is not None


@pytest.mark.parametrize("base_url", ["https://example.com", ""])
def test_descriptors_that_promise_calls_are_built_with_a_warning(tmp_path, base_url):
    write_action(tmp_path / "skills", "greet")
    write_action(tmp_path / "skills", "hidden", more='access = "private"')
    write_skill(tmp_path / "skills", "read")
    site = SiteOptions((str(tmp_path / "skills"),), tmp_path / "site", base_url=base_url)
    for _ in ("new", "unchanged"):
        found = [one for one in SiteBuild(site).run(lambda _: None).findings if one.code == "NOT_CALLABLE"]
        assert [(one.level, one.message.partition(": ")[2]) for one in found] == [("warning", "greet")] * bool(base_url)
        assert all("skillwire serve FOLDER --base-url https://example.com" in one.fix for one in found)
