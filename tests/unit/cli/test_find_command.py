"""``skillwire find``: what it shows of the skills that were found."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from tests.support.command import run_command

from skillwire.cli import find as module
from skillwire.model.ref import Release, SkillRef
from skillwire.resolver.ladder import Outcome, RungTrace


@pytest.fixture
def found(monkeypatch):
    """Let a search find one skill in this state."""

    def find(release):
        ref = SkillRef(
            "notes", "https://example.com", "Keeps notes.", "1.0.0", None, "agent-skills 0.2.0", 1.0, release=release
        )
        client = SimpleNamespace(find=lambda *_, **__: [(SimpleNamespace(ref=ref), 1.0)], rungs=())
        monkeypatch.setattr(module, "open_client", lambda *_, **__: nullcontext(client))

    return find


def test_a_deprecated_skill_is_marked_with_its_successor(found):
    found(Release("deprecated", "it is old", "acme/diary"))
    assert "[deprecated, use acme/diary] Keeps notes." in run_command("find", "notes").out
    [hit] = run_command("find", "notes", "--json").document()["hits"]
    assert hit["state"] == {"status": "deprecated", "reason": "it is old", "successor": "acme/diary"}


@pytest.mark.parametrize("release", [None, Release()])
def test_an_active_skill_has_no_mark(found, release):
    found(release)
    assert "[" not in run_command("find", "notes").out
    [hit] = run_command("find", "notes", "--json").document()["hits"]
    assert "state" not in hit


@pytest.mark.parametrize(("options", "is_hinted"), [([], True), (["--offline"], False)])
def test_a_search_of_the_cache_that_finds_nothing_names_refresh(monkeypatch, options, is_hinted):
    client = SimpleNamespace(find=lambda *_, **__: [], rungs=())
    monkeypatch.setattr(module, "open_client", lambda *_, **__: nullcontext(client))
    said = run_command("find", "two words", "--from", "example.com", *options).err
    hint = "only the cache was asked: skillwire find 'two words' --from example.com --refresh\n"
    assert (hint in said) is is_hinted


def test_a_search_that_asked_an_origin_does_not_name_refresh(monkeypatch):
    def open_client(*_, progress, **__):
        def find(*_, **__):
            progress.traffic("example.com", 0)
            return []

        return nullcontext(SimpleNamespace(find=find, rungs=()))

    monkeypatch.setattr(module, "open_client", open_client)
    assert "--refresh" not in run_command("find", "notes").err


@pytest.mark.parametrize(("attempts", "is_hinted"), [(1, False), (0, True)])
@pytest.mark.parametrize("name", ["dht", "lan"])
def test_a_search_that_asked_over_datagrams_does_not_name_refresh(monkeypatch, name, attempts, is_hinted):
    rungs = (RungTrace(name, Outcome.NOTHING, attempts=attempts), RungTrace("cache", Outcome.NOTHING, attempts=1))
    client = SimpleNamespace(find=lambda *_, **__: [], rungs=rungs)
    monkeypatch.setattr(module, "open_client", lambda *_, **__: nullcontext(client))
    assert ("--refresh" in run_command("find", "notes").err) is is_hinted


@pytest.mark.parametrize(
    ("rungs", "note"),
    [
        (
            (RungTrace("dht", Outcome.OFF, reason="it needs names"), RungTrace("cache", Outcome.NOTHING, attempts=1)),
            "no source was asked (dht: it needs names)",
        ),
        ((RungTrace("dht", Outcome.NOTHING, attempts=1),), "the origin publishes no skills"),
        ((), "the origin publishes no skills"),
    ],
)
def test_an_empty_list_says_whether_any_source_was_asked(monkeypatch, rungs, note):
    client = SimpleNamespace(find=lambda *_, **__: [], rungs=rungs)
    monkeypatch.setattr(module, "open_client", lambda *_, **__: nullcontext(client))
    assert note in run_command("find").err
