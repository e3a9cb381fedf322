"""Which versions of the protocol fit together, as a table. Spec: SSP §6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import ValidationError
from skillwire.model.semver import is_version, major
from skillwire.protocols.skill_sharing.messages import PROTOCOL_VERSION

if TYPE_CHECKING:
    from skillwire.errors import Place


class Rule(NamedTuple):
    """What holds when the major version of a document is so beside a consumer's."""

    document: str
    compatible: bool
    meaning: str


#: How the document's MAJOR is, beside the consumer's. Spec: SSP §6.3.
RULES: Final[dict[int, Rule]] = {
    1: Rule("newer", False, "A consumer cannot read a newer major version."),
    0: Rule("same", True, "Minor and patch versions only add."),
    -1: Rule("older", True, "A consumer reads older major versions."),
}


def check_version(version: str, *, consumer: str = PROTOCOL_VERSION, place: Place | None = None) -> None:
    """Check that a consumer of the protocol version ``consumer`` can read a document of ``version``.

    Raises:
        ValidationError: ``VERSION_INCOMPATIBLE`` with both versions and the range that is read; ``VALIDATION_ERROR``
            when ``version`` is none.
    """
    if not is_version(version):
        raise ValidationError("VALIDATION_ERROR", f"not a version: {ascii(version)[:80]}", place=place)
    theirs, ours = major(version), major(consumer)
    rule = RULES[(theirs > ours) - (theirs < ours)]
    if not rule.compatible:
        raise ValidationError(
            "VERSION_INCOMPATIBLE",
            f"Protocol version {version} is not compatible with consumer version {consumer}",
            place=place,
            details={
                "descriptor_version": version,
                "consumer_version": consumer,
                "supported_major": ours,
                "supported_range": f"<{ours + 1}.0.0",
            },
        )
