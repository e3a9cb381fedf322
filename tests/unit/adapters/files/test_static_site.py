"""Building a static site: what is reported of the whole."""

import pytest
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
