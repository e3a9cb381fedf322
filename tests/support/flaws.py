"""What an error says is wrong with a value."""

from typing import Any, cast

from skillwire.errors import SkillwireError


def flaws_of(error: SkillwireError) -> list[dict[str, Any]]:
    """Return the violations that ``error`` tells: each with path, message, expected, actual."""
    return cast("list[dict[str, Any]]", error.details["errors"])
