"""For whom runs are on: the operator's word, before anything else is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import TrustError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillwire.invocation.settings import Opening


#: Setting → the option of a command that serves over standard input.
_OPTIONS: Final = {"execute_skill": "--execute", "run_code": "--run-code"}


def check_open(owner: str, openings: Mapping[str, Opening], what: str, *, is_local: bool = False) -> None:
    """Look whether one of the settings, by their names in ``[rpc]``, opens ``what`` to ``owner``.

    Where it ``is_local``, whoever asks started this process, and is told what to start it with.

    Raises:
        TrustError: ``PERMISSION_DENIED`` when all of it is off; ``AUTH_REQUIRED`` when it is on for those who say who
            they are.
    """
    if not any(openings.values()):
        fix = _local_fix(openings) if is_local else _fix(openings)
        raise TrustError("PERMISSION_DENIED", f"this server does not {what}", fix=fix)
    if True not in openings.values() and owner.startswith("address "):
        raise TrustError("AUTH_REQUIRED", f"this server does {what}, for those who say who they are")


def _fix(names: Iterable[str]) -> str:
    written = " or ".join(f"{name} = true" for name in names)
    return f"Whoever runs the server: write {written} below [rpc] in its configuration."


def _local_fix(names: Iterable[str]) -> str:
    return f"Start this command with {' or '.join(_OPTIONS[name] for name in names)}."
