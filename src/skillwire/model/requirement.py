"""What a skill requires: other skills and capabilities, in ranges of versions.

A range is a list of comparisons that all hold: ``1.2.0`` exactly, ``>=0.7.0 <2``, ``~1.2`` (the same minor
version), ``^1.2`` (the same major version; of a version 0, the same minor). A missing part means every value of it. A
prerelease is in a range only if a comparison names a prerelease of the same version. Spec: SDP §7.2; specs §3.

A requirement is ``NAME``, of the same place; ``NAMESPACE/NAME``, of the same registry; ``example.com/NAME``; or
``capability:ID``; each with ``@RANGE``. Spec: docs/reference/skill-folder.md [ours].
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from skillwire.errors import ValidationError
from skillwire.model.package import PackageName, read_package_name, version_order
from skillwire.model.skill import is_skill_name, is_version

_LENGTH: Final = 200
_MOST: Final = 8
_COMPARISON: Final = re.compile(r"(\^|~|>=|<=|>|<|=|)\s*(\*|[0-9][0-9A-Za-z.+-]*)(?:\s+|\Z)", re.ASCII)
_PARTIAL: Final = re.compile(r"(0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*))?(?:\.(0|[1-9][0-9]*))?", re.ASCII)
_CAPABILITY: Final = re.compile(r"capability:[A-Za-z0-9._-]{1,128}", re.ASCII)
_PLACE: Final = re.compile(
    r"(?=[^/]*[.:]|localhost/)[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?(?:/[A-Za-z0-9@._~-]+)+", re.ASCII
)
_VERSION: Final = re.compile(r"(?<!/)@")  # one behind a slash begins a namespace


class VersionRange(NamedTuple):
    """The versions from ``first`` on and before ``end``, both keys of :func:`version_order`; () is no bound."""

    text: str
    first: tuple[Any, ...] = ()
    end: tuple[Any, ...] = ()
    prereleases: frozenset[Any] = frozenset()  # the versions whose prereleases are in it

    def __contains__(self, version: object) -> bool:
        """Whether a version is in the range; every one, and none at all, is in ``*``."""
        if self.text == "*":
            return True
        if not isinstance(version, str) or not is_version(version):
            return False
        numbers, is_release, _ = order = version_order(version)
        if not (is_release or numbers in self.prereleases):
            return False
        return self.first <= (*order, 0) and (not self.end or (*order, 0) < self.end)


ANY_VERSION: Final = VersionRange("*")


def parse_range(text: str) -> VersionRange:
    """Return the range that ``text`` means. Raises ValidationError (``VERSION_RANGE``)."""
    comparisons, read = [], 0
    stripped = text.strip()
    while len(text) <= _LENGTH and (match := _COMPARISON.match(stripped, read)):
        comparisons.append((match[1], match[2]))
        read = match.end()
    if not comparisons or read < len(stripped) or len(comparisons) > _MOST:
        raise _refused(text)
    if comparisons == [("", "*")]:
        return ANY_VERSION
    prereleases = [version_order(version)[0] for _, version in comparisons if is_version(version) and "-" in version]
    bounds = [_bounds(operator, version, text) for operator, version in comparisons]
    ends = [end for _, end in bounds if end]
    return VersionRange(stripped, max(first for first, _ in bounds), min(ends, default=()), frozenset(prereleases))


def _bounds(operator: str, version: str, text: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the first version of one comparison and the end behind its last one."""
    match = _PARTIAL.match(version)
    if match is None or not (is_version(version) or match.end() == len(version)):
        raise _refused(text)
    parts = tuple(int(part) for part in match.groups() if part is not None)
    last = len(parts) - 1
    lasts = {"~": min(last, 1), "^": next((place for place, part in enumerate(parts) if part), last)}
    first = (*version_order(version), 0) if is_version(version) else _release(parts)
    behind = (*first[:-1], 1)
    if operator in lasts or not is_version(version):  # the first release that begins with other parts
        place = lasts.get(operator, last)
        behind = _release((*parts[:place], parts[place] + 1))
    return {">": (behind, ()), ">=": (first, ()), "<": ((), first), "<=": ((), behind)}.get(operator, (first, behind))


def _release(parts: tuple[int, ...]) -> tuple[Any, ...]:
    return ((*parts, 0, 0)[:3], True, (), 0)


def _refused(text: str) -> ValidationError:
    fix = "Write comparisons such as ^1.2, ~1.2.3, >=1.0 <2, or one version."
    return ValidationError("VERSION_RANGE", f"{ascii(text)[:120]} is no range of versions", fix=fix)


class Requirement(NamedTuple):
    """One requirement: a skill at ``target``, or a skill that has ``capability``."""

    text: str
    target: str
    capability: str
    versions: VersionRange = ANY_VERSION


def required_packages(requires: Iterable[str], namespace: str) -> set[PackageName]:
    """Return the packages of the same registry that a skill in ``namespace`` requires."""
    targets = [parse_requirement(text).target for text in requires]
    found = [PackageName(namespace, one) if is_skill_name(one) else read_package_name(one) for one in targets]
    return {one for one in found if one is not None}


def split_version(text: str) -> tuple[str, str]:
    """Return a reference and what stands behind its ``@``; the ``@`` of ``example.com/@namespace/name`` is no such."""
    found = _VERSION.split(text, maxsplit=1)
    return (found[0], found[1]) if len(found) > 1 else (text, "")


def parse_requirement(text: str) -> Requirement:
    """Return the requirement that ``text`` states. Raises ValidationError (``FIELD``, ``VERSION_RANGE``)."""
    target, version = split_version(text[:_LENGTH])
    is_capability = _CAPABILITY.fullmatch(target) is not None
    is_target = is_skill_name(target) or read_package_name(target) is not None or _PLACE.fullmatch(target) is not None
    if len(text) > _LENGTH or not (is_capability or is_target) or text.endswith("@"):
        fix = 'Write "name", "namespace/name", "example.com/name" or "capability:id", each with @RANGE.'
        raise ValidationError("FIELD", f"{ascii(text)[:120]} names no skill and no capability", fix=fix)
    versions = parse_range(version) if version else ANY_VERSION
    capability = target.removeprefix("capability:") if is_capability else ""
    return Requirement(text, "" if is_capability else target, capability, versions)
