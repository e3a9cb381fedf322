"""Which skills can be called, and what lists say of it."""

import pytest

from skillwire.model.skill import capability_text, is_callable


@pytest.mark.parametrize(
    ("kind", "capability_type", "text"),
    [
        ("instruction", "knowledge", "knowledge"),
        (None, "knowledge", "knowledge"),
        ("instruction", None, "instruction"),
        (None, None, "-"),
        ("", None, "-"),
        ("action", None, "callable (action)"),
        ("action", "knowledge", "callable (knowledge)"),
        ("instruction", "api", "callable (api)"),
        (None, "plugin", "callable (plugin)"),
        (None, "task", "callable (task)"),
    ],
)
def test_callable_is_an_action_or_another_type_than_knowledge(kind, capability_type, text):
    assert capability_text(kind, capability_type) == text
    assert is_callable(kind, capability_type) is text.startswith("callable")
