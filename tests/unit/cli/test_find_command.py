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
