"""``skillwire add``: what a person sees before the question."""

from typing import Any

import pytest

from skillwire.cli import add
from skillwire.cli.output import Output
from skillwire.cli.progress import Progress
from skillwire.resolver.apply import InstallReport
from skillwire.resolver.plan import InstallPlan


@pytest.mark.parametrize(
    ("unknown", "consent", "terminal", "expected"),
    [
        (("https://example.com",), False, True, ["inspect", "ask", "apply True"]),
        (("https://example.com",), True, True, ["apply True"]),
        (("https://example.com",), False, False, ["ask", "apply True"]),
        ((), False, True, ["apply True"]),
    ],
)
def test_doubts_are_printed_before_consent_is_asked_for(monkeypatch, unknown, consent, terminal, expected):
    done = []

    class Client:
        root = "."

        def inspect(self, _):
            done.append("inspect")

        def apply(self, _, *, consent, **__):
            done.append(f"apply {consent}")
            return InstallReport()

    def confirm(_):
        done.append("ask")
        return True

    monkeypatch.setattr(add, "has_terminal", lambda: terminal)
    monkeypatch.setattr(add, "confirm", confirm)
    client: Any = Client()
    plan = InstallPlan((), unknown)
    assert add.carry_out(client, Output(), Progress(shown=False), plan, consent=consent, overwrite=False) == 0
    assert done == expected
