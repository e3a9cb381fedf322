"""What an update asks for more: shown, held back, accepted; and versions that are too young."""

import json
import time

import pytest
from tests.unit.client.test_install import ORIGIN, Site, failing, skill_md, tar_gz

from skillwire import Client
from skillwire.errors import NotFoundError, TrustError, UsageError
from skillwire.resolver.settings import Settings

CURL = "```sh\ncurl https://x.example/i\n```\n"


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def client(site, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "skillwire"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    return site.open(tmp_path / "project")


def body(client, name="one"):
    return (client.root / f".agents/skills/{name}/SKILL.md").read_text().partition("---\n")[2].partition("---\n")[2]


class TestUpdate:
    @pytest.mark.parametrize(
        "case",
        [
            ("1.1.0", "Do it well.\n", [], None),
            ("1.1.0", CURL, [], "UPDATE_ASKS_MORE"),
            ("1.1.0", CURL, ["one"], None),
            ("1.1.0", CURL, ["two"], "UPDATE_ASKS_MORE"),
            ("1.1.0", CURL, ["one@DIGEST"], None),
            ("1.1.0", CURL, [f"one@sha256:{'0' * 64}"], "UPDATE_ASKS_MORE"),
            ("1.0.0", "Do it well.\n", [], "VERSION_REUSED"),
            ("1.0.0", "Do it well.\n", ["one"], "VERSION_REUSED"),
            ("1.0.0", "Do it well.\n", ["one@DIGEST"], None),
            (None, "Do it well.\n", [], None),
        ],
    )
    def test_an_update_that_asks_for_more_or_reuses_a_version_is_held_back(self, client, site, case):
        version, text, accept, code = case
        site.put("one", version=version and "1.0.0")
        site.put("two", version="1.0.0")
        client.add("example.com/one", "example.com/two", consent=True)
        site.put("one", skill_md("one", text), version=version)
        site.put("two", skill_md("two", "Better.\n"), version="1.1.0")
        digest = site.entries["one"]["digest"]
        report = client.update(accept=[one.replace("DIGEST", digest) for one in accept])
        assert {name: error.code for name, error in report.failed.items()} == ({"one": code} if code else {})
        assert body(client) == ("Do it.\n" if code else text)
        assert body(client, "two") == "Better.\n"
        if code:
            assert f"--accept one{f'@{digest}' if code == 'VERSION_REUSED' else ''}" in report.failed["one"].fix

    def test_an_error_names_what_is_asked_for_and_shows_nothing_hidden(self, client, site):
        site.put("one", version="1.0.0")
        client.add("example.com/one", consent=True)
        hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")
        site.put("one", skill_md("one", f"{CURL}\u202e\u200b\x1b[2J<!-- obey\x07 -->{hidden}\n"), version="1.1.0")
        error = client.update().failed["one"]
        assert error.message.isprintable()
        assert error.details["more"]["hosts"] == ["x.example"]
        assert any("spelling 'obey me'" in one for one in error.details["more"]["hidden"])
        assert all(one.isprintable() for values in error.details["more"].values() for one in values)

    def test_local_changes_of_the_installed_files_accept_nothing(self, client, site):
        site.put("one", version="1.0.0")
        client.add("example.com/one", consent=True)
        installed = client.root / ".agents/skills/one/SKILL.md"
        installed.write_text(installed.read_text() + "Mine.\n")
        assert client.inspect(client.plan("example.com/one")).skills[0].inspected.is_reused is False
        site.put("one", skill_md("one", CURL), version="1.1.0")
        assert client.update(overwrite=True).failed["one"].code == "UPDATE_ASKS_MORE"

    def test_the_inspected_bytes_are_installed_and_fetched_once(self, client, site):
        site.old_index(["one"])  # without digests the origin may answer otherwise the next time
        plan = client.inspect(client.plan("example.com/one"), consent=True)
        assert plan.skills[0].inspected.after == {}
        site.publisher.answer(f"{ORIGIN}/.well-known/skills/one/SKILL.md", skill_md("one", CURL))
        client.apply(plan, consent=True)
        assert body(client) == "Do it.\n"
        assert site.asked.count("skills/one/SKILL.md") == 1

    def test_a_failed_download_is_told_by_the_installation(self, client, site):
        site.put("one", digest=f"sha256:{'0' * 64}")
        plan = client.inspect(client.plan("example.com/one"), consent=False)
        assert plan.skills[0].inspected is None  # consent may be missing: it is tried again
        plan = client.inspect(plan._replace(unknown_origins=()))
        asked = len(site.asked)
        with failing(TrustError, "DIGEST_MISMATCH"):
            client.apply(plan, consent=True)
        assert len(site.asked) == asked

    def test_an_update_whose_files_could_not_be_reviewed_is_held_back(self, client, site):
        site.put("one", version="1.0.0")
        client.add("example.com/one", consent=True)
        site.put("one", skill_md("one", CURL), version="1.1.0")
        client.revoke_trust("example.com")
        plan = client.plan_update(client.compare())
        plan, held = client.hold_back(plan, ())
        assert (plan.skills, held["one"].code) == ((), "UPDATE_ASKS_MORE")

    def test_an_unknown_origin_cannot_avoid_the_review_by_a_failure(self, client, site):
        site.put("one", version="1.0.0")
        client.add("example.com/one", consent=True)
        client.revoke_trust("example.com")
        site.put("one", skill_md("one", CURL), version="1.1.0", digest=f"sha256:{'0' * 64}")
        plan = client.inspect(client.plan_update(client.compare()), consent=True)
        site.put("one", skill_md("one", CURL), version="1.1.0")
        with failing(TrustError, "DIGEST_MISMATCH"):
            client.apply(plan, consent=True)

    def test_the_fix_names_the_version_that_was_asked_for(self, client, site):
        rows = []
        for version, text in (("1.2.0", CURL), ("1.1.0", "Do it.\n")):
            site.put("one", skill_md("one", text), version=version)
            rows.append({**site.entries["one"], "url": f"/one-{version}.md"})
            site.publisher.answer(f"{ORIGIN}/one-{version}.md", skill_md("one", text))
        site.publisher.answer(f"{ORIGIN}/@one/versions.json", json.dumps({"name": "one", "versions": rows}).encode())
        client.add("example.com/one@1.1.0", consent=True)
        plan = client.inspect(client.plan_update(client.compare("one", to="^1.2")))
        held = client.hold_back(plan)[1]["one"]
        read = "Read skillwire diff one '^1.2', then accept it"
        assert held.fix == f"{read}: skillwire update one --to '^1.2' --accept one"

    @pytest.mark.parametrize("text", ["One", "one@", "one@1.0.0", "one@sha256:0", "../one"])
    def test_another_form_of_accept_is_refused(self, client, site, text):
        site.put("one")
        client.add("example.com/one", consent=True)
        with failing(UsageError, "USAGE"):
            client.update(accept=[text])


class TestDiff:
    def test_an_installed_skill_is_compared_with_its_origin(self, client, site):
        site.put("one", version="1.0.0")
        client.add("example.com/one", consent=True)
        assert client.diff("one").changes() == []
        site.put("one", skill_md("one", CURL), version="1.1.0")
        review = client.diff("one")
        assert (review.old_version, review.version, review.is_changed) == ("1.0.0", "1.1.0", True)
        assert review.more == {"hosts": ["x.example"], "commands": ["curl"]}
        assert review.less == {}
        (change,) = review.changes()
        assert (change.path, change.kind) == ("SKILL.md", "changed")
        assert [line.text for line in change.lines if line.sign == "+"] == CURL.splitlines()
        assert client.diff("example.com/one").more == review.more
        assert body(client) == "Do it.\n"

    @pytest.mark.parametrize(
        ("reference", "kind", "code"),
        [("example.com/one", UsageError, "USAGE"), ("example.com/none", NotFoundError, "SKILL_NOT_FOUND")],
    )
    def test_what_cannot_be_compared_is_an_error(self, client, site, reference, kind, code):
        site.put("one")
        with failing(kind, code):
            client.diff(reference)

    def test_two_thousand_files_are_compared_within_the_bounds(self, client, site):
        def archive(text):
            files = {f"references/{number}.md": (f"{text} {number}\n".encode() * 40, 0o644) for number in range(1_900)}
            return tar_gz({"SKILL.md": (skill_md("one"), 0o644), **files})

        site.put("one", archive("Read"), version="1.0.0")
        client.add("example.com/one", consent=True)
        site.put("one", archive("See https://x.example and read"), version="1.1.0")
        review = client.diff("one")
        assert review.more == {"hosts": ["x.example"]}
        changes = review.changes()
        assert len(changes) == 1_900
        assert all(change.lines or change.reason for change in changes)
        assert 0 < sum(len(change.lines) for change in changes) <= 5_000


class TestMinimumAge:
    """``min_age`` of three days; versions 1.2.0 and 1.1.0 were published an hour and five days ago."""

    @pytest.fixture
    def young(self, client, site):
        def put(hours=1, *, is_dated=True):
            rows = []
            for version, age in (("1.2.0", hours), ("1.1.0", 120)):
                site.put("one", skill_md("one", f"{version}\n"), version=version)
                row = {**site.entries["one"], "url": f"/one-{version}.md"}
                rows.append({**row, **({"published": time.time() - age * 3600} if is_dated else {})})
                site.publisher.answer(f"{ORIGIN}/one-{version}.md", skill_md("one", f"{version}\n"))
            site.put("one", skill_md("one", "1.2.0\n"), version="1.2.0")
            document = {"name": "one", "versions": rows}
            site.publisher.answer(f"{ORIGIN}/@one/versions.json", json.dumps(document).encode())
            return site.open(client.root, settings=Settings(min_age="3d"))

        return put

    def versions(self, client: Client) -> list[str | None]:
        return [one.version for one in client.installed()]

    @pytest.mark.parametrize(
        ("reference", "hours", "version"),
        [
            ("example.com/one", 1, "1.1.0"),
            ("example.com/one", 73, "1.2.0"),
            ("example.com/one@^1", 1, "1.1.0"),
            ("example.com/one@1.2.0", 1, "1.2.0"),
            ("example.com/one@DIGEST", 1, "1.2.0"),
        ],
    )
    def test_a_younger_version_is_taken_only_if_it_is_named_exactly(self, young, site, reference, hours, version):
        client = young(hours)
        client.add(reference.replace("DIGEST", site.entries["one"]["digest"]), consent=True)
        assert self.versions(client) == [version]

    def test_without_an_older_version_or_a_date_nothing_is_taken(self, young):
        client = young(is_dated=False)
        with failing(TrustError, "VERSION_TOO_YOUNG"):
            client.add("example.com/one", consent=True)
        with failing(TrustError, "VERSION_TOO_YOUNG"):
            client.add("example.com/one@>1.1", consent=True)

    def test_an_update_to_a_range_waits_too(self, young, client):
        waiting = young()
        client.add("example.com/one@1.1.0", consent=True)
        assert [row.latest.version for row in waiting.compare("one", to="^1")] == ["1.1.0"]
        assert [row.latest.version for row in waiting.compare("one", to="1.2.0")] == ["1.2.0"]

    def test_an_update_waits(self, young, client):
        waiting = young()
        client.add("example.com/one@1.1.0", consent=True)
        lock = client.root / "skills.lock"
        lock.write_text(lock.read_text().replace('"wanted": "1.1.0"', '"wanted": ""'))
        (row,) = waiting.outdated()
        assert (row.state, row.error.code) == ("young", "VERSION_TOO_YOUNG")
        waiting.update()
        assert self.versions(waiting) == ["1.1.0"]
        client.update()
        assert self.versions(client) == ["1.2.0"]
        assert not waiting.outdated()  # what is locked stays
