"""``publish`` and ``outdated``: what they print of several skills, and of a version that was withdrawn."""

import json
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.publishing import write_skill

from skillwire.cli import add, installed, publish
from skillwire.client.registry import PublishedPackage, RemoteRegistry
from skillwire.codes import CODES
from skillwire.errors import FetchError, TrustError, ValidationError
from skillwire.folder.review import SkillReview
from skillwire.resolver.plan import UpdateComparison, renamed


@pytest.fixture
def registry_called(monkeypatch):
    monkeypatch.setattr(RemoteRegistry, "request", lambda *_: {})


@pytest.fixture
def opened(monkeypatch):
    """Let the commands have this client."""

    def use(**methods):
        @contextmanager
        def open_client(*_, **__):
            yield SimpleNamespace(**methods)

        for module in (add, publish, installed):
            monkeypatch.setattr(module, "open_client", open_client)

    return use


def test_a_batch_names_the_command_that_explains_its_errors(told, tmp_path, opened):
    for name in ("one", "two"):
        write_skill(tmp_path, name)
    errors = [ValidationError("SKILL_INVALID", "broken"), TrustError("SECRET_PUBLISHED", "a key")]
    place = SimpleNamespace(publish_all=lambda *_, **__: errors, request=lambda *_: {})
    opened(registry=lambda _: place)
    shown = told("publish", tmp_path, status=1)
    assert shown.err.count("error[") == 2
    assert "skillwire explain SKILL_INVALID SECRET_PUBLISHED" in shown.err + shown.out


BROKEN = {"SKILL.md": "---\nname: other\ndescription: d\nodd: x\n---\n# B\n"}
KEYS = dict.fromkeys(("a.txt", "b.txt"), "AKIA" + "IOSFODNN7EXAMPL3\n")


@pytest.mark.usefixtures("registry_called")
@pytest.mark.parametrize(
    ("files", "code", "rows"),
    [
        (BROKEN, "SKILL_INVALID", [("NAME_FOLDER", "SKILL.md:2:1"), ("FIELD_UNKNOWN", "SKILL.md:4:1")]),
        (KEYS, "SECRET_PUBLISHED", [("SECRET", "a.txt:1:1"), ("SECRET", "b.txt:1:1")]),
    ],
)
def test_every_finding_of_a_refused_folder_is_printed(told, tmp_path, files, code, rows):
    status = CODES[code].exit_code or 1
    address = ("--registry", "http://127.0.0.1:9")
    one = write_skill(tmp_path, "one", files)
    write_skill(tmp_path, "two", files)
    shown = told("publish", one, *address, status=status).err
    batch = told("publish", tmp_path, *address, status=status)
    for found, place in rows:
        assert f"[{found}]: " in shown
        assert f"  --> {one}/{place}\n  fix: " in shown
        assert f"  --> {one}/{place}\n  fix: " in batch.err
    assert ("2 findings" in shown or f"skillwire check {one}" in shown, f"error[{code}]: 2 " in shown) == (True, True)
    document = json.loads(told("publish", one, *address, "--json", status=status).out)
    assert [one["code"] for one in document["findings"]] == [found for found, _ in rows]
    document = json.loads(told("publish", tmp_path, *address, "--json", status=status).out)
    for failed in document["failed"]:
        assert [one["code"] for one in failed["error"]["details"]["findings"]] == [found for found, _ in rows]


def published(name):
    return PublishedPackage(f"ann/{name}", "1.0.0", "created", "sha256:00", 1, (), "public")


def test_a_batch_without_its_registry_ends_with_one_error(told, tmp_path, opened):
    for number in range(70):
        write_skill(tmp_path, f"s{number:02}")
    gone = FetchError("CONNECT_FAILED", "cannot connect")
    calls: list[Any] = []

    def publish_all(some, *_, **__):
        calls.append(some)
        return [published("a"), gone, published("b"), *[gone] * 61]

    opened(registry=lambda _: SimpleNamespace(publish_all=publish_all, request=lambda *_: {}))
    shown = told("publish", tmp_path, status=5)
    assert shown.err.count("error[CONNECT_FAILED]") == 1
    assert "2 published, 1 not published, 67 not tried, run the command again\n" in shown.out
    assert len(calls) == 1
    document = json.loads(told("publish", tmp_path, "--json", status=5).out)
    assert (len(document["published"]), len(document["failed"])) == (2, 68)


def test_an_interrupted_batch_tells_how_far_it_is(told, tmp_path, opened):
    for name in ("one", "two", "three"):
        write_skill(tmp_path, name)

    def publish_all(_, __, done, **___):
        done.append(published("one"))
        raise KeyboardInterrupt

    opened(registry=lambda _: SimpleNamespace(publish_all=publish_all, request=lambda *_: {}))
    lines = told("publish", tmp_path, status=130).err.splitlines()
    assert lines == ["1 of 3 skills are published; the same command publishes the rest", "interrupted"]


def test_a_bad_token_ends_a_batch_before_its_first_skill(told, tmp_path, opened):
    for name in ("one", "two"):
        write_skill(tmp_path, name)

    def refuse(*_):
        raise TrustError("AUTH_REQUIRED", "the token is unknown")

    opened(registry=lambda _: SimpleNamespace(request=refuse))
    assert told("publish", tmp_path, status=5).err.count("AUTH_REQUIRED]") == 1


def test_a_yanked_version_is_called_yanked(told, opened, monkeypatch):
    locked: Any = SimpleNamespace(name="notes", version="1.3.0", digest="")
    latest: Any = SimpleNamespace(version="1.2.0", digest="")
    yanked = TrustError("YANKED", "notes 1.3.0: loses data")
    row = UpdateComparison(locked, "changed", latest, yanked)
    opened(compare=lambda: [row], plan_update=lambda _: None, inspect=lambda _: None)
    monkeypatch.setattr(installed, "reviews_of", lambda _: [])
    assert told("outdated", status=1).out == "notes  yanked  notes 1.3.0: loses data; there is 1.2.0\n"


def test_outdated_shows_new_names(told, opened, monkeypatch):
    locked: Any = SimpleNamespace(name="notes", version="1.3.0", digest="x", origin="https://r.example/@acme")
    latest: Any = SimpleNamespace(name="memos", version="1.3.0", digest="x", origin="https://r.example/@apex")
    rows = [
        UpdateComparison(locked, "changed", latest),
        UpdateComparison(locked, "gone", error=renamed(locked, latest)),
    ]
    opened(compare=lambda: rows, plan_update=lambda _: None, inspect=lambda _: None)
    monkeypatch.setattr(installed, "reviews_of", lambda _: [])
    assert told("outdated", status=1).out == (
        "notes  changed  its origin is https://r.example/@apex now\n"
        "notes  gone  notes is called memos now. "
        "Run skillwire add https://r.example/@apex/memos, then skillwire remove notes.\n"
    )


@pytest.mark.parametrize(
    ("version", "wanted", "is_told"), [("", "1.0.0", True), ("", "", False), ("2.0.0", "1.0.0", False)]
)
def test_a_diff_within_the_version_that_was_asked_for_names_it(told, opened, version, wanted, is_told):
    review = SkillReview("notes", "1.0.0", "", {}, (), "1.0.0", "", {}, is_changed=False)
    locks: Any = [SimpleNamespace(name="notes", wanted=wanted), SimpleNamespace(name="other", wanted="3.0.0")]
    opened(diff=lambda *_: review, installed=lambda: locks)
    said = told("diff", "notes", *filter(None, [version])).err
    line = "updates stay within 1.0.0; to compare with another version: skillwire diff notes VERSION"
    assert (line in said.splitlines()) is is_told
