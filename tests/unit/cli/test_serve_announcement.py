"""The line that ``serve`` prints when it is ready: how to open a skill that is not public."""

from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.cli.serve import EventStream, _announce


@pytest.mark.parametrize(("is_registry", "form"), [(True, "ann/notes"), (False, "notes")])
def test_the_skill_is_named_in_a_form_that_opens_it(is_registry, form):
    skill = SimpleNamespace(name="notes", publisher="ann", action=None)
    site, everything = SimpleNamespace(names=[]), SimpleNamespace(skills={"notes": skill})
    revision: Any = SimpleNamespace(site=site, everything=everything, broken=[], skills=0)
    lines: list[str] = []
    output: Any = SimpleNamespace(
        line=lambda *parts: lines.append("".join(str(getattr(one, "text", one)) for one in parts))
    )
    events = EventStream(shown=False)
    _announce(
        output, events, "http://a", None, revision, registry=is_registry, announced=(), no_workers=False, exposure=None
    )
    assert lines[0].endswith(f"skillwire token create NAME --skill {form}")
