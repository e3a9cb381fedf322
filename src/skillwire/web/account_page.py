"""The pages of an account: its tokens and namespaces, and the steps that make an account or grant a login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire.web.environment import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.model.access import DeviceLogin, Token
    from skillwire.model.package import Role
    from skillwire.web.environment import Frame

_DAY: Final = 86_400.0
#: The lifetimes of a token that forms offer: value → label, and seconds.
LIFETIMES: Final[Mapping[str, tuple[str, float | None]]] = {
    "1": ("1 day", _DAY),
    "30": ("30 days", 30 * _DAY),
    "90": ("90 days", 90 * _DAY),
    "365": ("1 year", 365 * _DAY),
    "none": ("No end", None),
}
#: What scopes mean, in the order in which forms offer them.
SCOPES: Final[Mapping[str, str]] = {
    "read": "Read what is not public",
    "publish": "Publish and yank",
    "admin": "Everything of the account",
}
#: ``enter`` asks for a code, ``confirm`` for a decision; ``set-up`` makes the first operator, ``new`` an account.
Step = Literal["enter", "confirm", "approved", "refused", "set-up", "new", "failed"]


class ShownAccount(NamedTuple):
    """An account with its valid tokens, newest first, and namespace → role; ``secret`` is that of a new token."""

    account: str
    is_operator: bool
    tokens: Sequence[Token]
    namespaces: Mapping[str, Role]
    now: float
    notice: str = ""
    problem: str = ""
    secret: str = ""


def account_page(shown: ShownAccount, frame: Frame) -> str:
    """Return the page of an account."""
    return render("account.html", frame, {"shown": shown, "scopes": SCOPES, "lifetimes": LIFETIMES})


def step_page(
    step: Step,
    frame: Frame,
    *,
    problem: str = "",
    typed: str = "",
    login: DeviceLogin | None = None,
    namespaces: Sequence[str] = (),
) -> str:
    """Return the page of a step: what was ``typed`` or is proposed, and the login to decide about.

    Its token can be limited to one of the ``namespaces``, unless the program asked for some.
    """
    asked = login.scopes if login else ()
    values = {
        "scopes": {scope: meaning for scope, meaning in SCOPES.items() if scope in asked},
        "limited": [scope.partition(":")[2] for scope in asked if scope not in SCOPES],
        "step": step,
        "problem": problem,
        "typed": typed,
        "login": login,
        "namespaces": namespaces,
    }
    return render("account_step.html", frame, {**values, "lifetimes": LIFETIMES})
