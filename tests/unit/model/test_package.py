"""Ranges of versions and requirements: what they accept, and what they refuse."""

from __future__ import annotations

import pytest

from skillwire.errors import ValidationError
from skillwire.model.package import Status, latest_version, parse_range, parse_requirement, split_version

VERSIONS = ("0.0.3", "0.0.4", "0.2.3", "0.3.0", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0-a", "2.0.0")


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("1.2.0", ["1.2.0"]),
        ("=1.2.0", ["1.2.0"]),
        ("1.2", ["1.2.0", "1.2.9"]),
        ("1", ["1.0.0", "1.2.0", "1.2.9", "1.3.0"]),
        ("^1.2", ["1.2.0", "1.2.9", "1.3.0"]),
        ("^0.2.3", ["0.2.3"]),
        ("^0.0.3", ["0.0.3"]),
        ("^0.0", ["0.0.3", "0.0.4"]),
        ("^0", ["0.0.3", "0.0.4", "0.2.3", "0.3.0"]),
        ("~1.2.1", ["1.2.9"]),
        ("~1.2", ["1.2.0", "1.2.9"]),
        ("~1", ["1.0.0", "1.2.0", "1.2.9", "1.3.0"]),
        (">1.2", ["1.3.0", "2.0.0"]),
        (">1.2.0 <=1.3.0", ["1.2.9", "1.3.0"]),
        ("<=1.2", ["0.0.3", "0.0.4", "0.2.3", "0.3.0", "1.0.0", "1.2.0", "1.2.9"]),
        (">= 1.2.9 < 2", ["1.2.9", "1.3.0"]),
        (">=1.0.0-rc.1 <1.2.0", ["1.0.0-rc.1", "1.0.0"]),
        ("<2.0.0-b >1.3.0", ["2.0.0-a"]),
        ("*", list(VERSIONS)),
    ],
)
def test_ranges(text: str, accepted: list[str]) -> None:
    """A range accepts these versions; a prerelease only where a comparison names one of the same version."""
    assert [version for version in VERSIONS if version in parse_range(text)] == accepted


@pytest.mark.parametrize("text", ["", " ", "^", "latest", "1.2.3.4", "01.2.0", "^1.x", "1 || 2", ">=1,<2", "1 " * 9])
def test_refused_ranges(text: str) -> None:
    """Another text is no range."""
    with pytest.raises(ValidationError, match="no range of versions") as refused:
        parse_range(text)
    assert refused.value.code == "VERSION_RANGE"


@pytest.mark.parametrize(
    ("text", "target", "capability", "versions"),
    [
        ("pdf-tools", "pdf-tools", "", "*"),
        ("acme/pdf-tools@^1.2", "acme/pdf-tools", "", "^1.2"),
        ("example.com/@acme/pdf-tools@>=1 <2", "example.com/@acme/pdf-tools", "", ">=1 <2"),
        ("localhost/name", "localhost/name", "", "*"),
        ("127.0.0.1:8000/name@1.0.0", "127.0.0.1:8000/name", "", "1.0.0"),
        ("capability:org-data-read@>=0.7.0", "", "org-data-read", ">=0.7.0"),
    ],
)
def test_requirements(text: str, target: str, capability: str, versions: str) -> None:
    """A requirement names a skill or a capability, with a range."""
    found = parse_requirement(text)
    assert (found.target, found.capability, found.versions.text) == (target, capability, versions)


@pytest.mark.parametrize(
    "text", ["", "Name", "a/b/c", "./folder", "https://example.com/a", "name@", "name@latest", "capability:", "a b"]
)
def test_refused_requirements(text: str) -> None:
    """A path, a URL with a scheme and a text without a name are no requirements."""
    with pytest.raises(ValidationError):
        parse_requirement(text)


def test_versions_of_references() -> None:
    """The ``@`` of a namespace begins no version."""
    assert split_version("example.com/@acme/name@1.2.0") == ("example.com/@acme/name", "1.2.0")
    assert split_version("example.com/@acme") == ("example.com/@acme", "")


def test_the_latest_of_versions_with_equal_precedence_is_the_same_in_any_order() -> None:
    versions = [(version, Status.ACTIVE) for version in ("1.0.0", "1.0.0+z", "1.0.0+a", "0.9.0")]
    assert latest_version(versions) == latest_version(reversed(versions)) == "1.0.0+z"
