"""The check of what runs skills: whether a sandbox starts here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.adapters.sandbox.program import find_program
from skillwire.adapters.sandbox.sandbox import Sandbox
from skillwire.errors import TrustError
from skillwire.resolver.checkup import Diagnosis, from_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.adapters.checkup.surroundings import Surroundings


def check_sandbox(_: Surroundings) -> Iterator[Diagnosis]:
    """Start a sandbox where there is something to start it with; only a server of Python skills needs one."""
    try:
        program = find_program()
    except TrustError as error:
        yield Diagnosis("ok", f"{error.message}; only a server that runs Python skills needs it")
        return
    try:
        seconds = Sandbox(program).check()
    except TrustError as error:
        yield from_error(error, "warning", lead="Python skills cannot be run here: ")
        return
    yield Diagnosis("ok", f"skills run in {program.path}, which takes {seconds * 1000:.0f} ms to start")
