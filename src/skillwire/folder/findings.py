"""Collecting findings: everything that is wrong is said, not only the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.codes import CODES
from skillwire.errors import Place
from skillwire.folder.rules import RULES
from skillwire.model.finding import Finding

if TYPE_CHECKING:
    from skillwire.errors import SkillwireError
    from skillwire.folder.rules import CheckLevel


class Findings(list[Finding]):
    """A list of findings that knows the level at which the rules are applied."""

    def __init__(self, level: CheckLevel) -> None:
        super().__init__()
        self.level: CheckLevel = level
        self.secrets: set[str] = set()

    def add(self, code: str, message: str, place: Place, *, fix: str | None = None) -> None:
        """Note that the rule ``code`` is broken, unless it is not applied at this level."""
        rule = RULES[code]
        level = rule.level_strict if self.level == "strict" else rule.level_lenient
        if level is not None:
            self.append(Finding(code, level, message, place, fix or rule.fix))

    def add_error(self, error: SkillwireError, place: Place | None = None) -> None:
        """Note an error that no level lets pass; ``place`` stands in where the error has none."""
        where = error.place or place or Place("")
        self.append(Finding(error.code, "error", error.message, where, error.fix or CODES[error.code].fix))

    def redact(self) -> None:
        """Take :attr:`secrets` out of every message, and the lines that hold one out of what is shown."""
        lines = {finding.place[:2] for finding in self if finding.code == "SECRET"}
        for index, finding in enumerate(self if self.secrets else ()):
            message = finding.message
            for secret in self.secrets:
                message = message.replace(secret, "*" * len(secret))
            place = finding.place
            if finding.code != "SECRET" and place[:2] in lines:
                place = place._replace(excerpt=None)
            self[index] = finding._replace(message=message, place=place)

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error."""
        return any(finding.level == "error" for finding in self)
