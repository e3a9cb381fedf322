"""The pages of an account: its tokens and namespaces, and the steps that make an account or grant a login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from skillwire.registry.accounts import grantable_scopes
from skillwire.web.environment import render

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from skillwire.model.access import DeviceLogin, Token
    from skillwire.model.package import Role
    from skillwire.web.environment import Frame

_DAY: Final = 86_400.0
#: The lifetimes of a token that forms offer: value → label, and seconds.
LIFETIMES: Final[Mapping[str, tuple[str, float | None]]] = {
    "1": ("After 1 day", _DAY),
    "30": ("After 30 days", 30 * _DAY),
    "90": ("After 90 days", 90 * _DAY),
    "365": ("After 1 year", 365 * _DAY),
    "none": ("Never", None),
}
#: What scopes mean, in the order in which forms offer them.
SCOPES: Final[Mapping[str, str]] = {
    "read": "Read what is not public",
    "publish": "Publish and yank",
    "admin": "Everything of the account",
}
#: ``enter`` asks for a code, ``confirm`` for a decision; ``set-up`` makes the first operator, if there
#: is none yet, ``new`` an account.
Step = Literal["enter", "confirm", "approved", "refused", "set-up", "has-operator", "new", "failed"]


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
    own: Collection[str] = (),
    namespaces: Sequence[str] = (),
) -> str:
    """Return the page of a step: what was ``typed`` or is proposed, and the login to decide about.

    The page offers what a session with the scopes ``own`` can give. The token can be limited to one of the
    ``namespaces``, or of those that the session is limited to, unless the program asked for some.
    """
    asked = login.scopes if login else ()
    given = grantable_scopes(own, asked)
    bounds = [scope.partition(":")[2] for scope in sorted(own) if scope not in SCOPES]
    values = {
        "scopes": {scope: meaning for scope, meaning in SCOPES.items() if scope in given},
        "limited": [scope.partition(":")[2] for scope in given if scope not in SCOPES],
        "lacking": [scope for scope in asked if scope not in given],
        "is_bound": bool(bounds),
        "step": step,
        "problem": problem,
        "typed": typed,
        "login": login,
        "namespaces": bounds or namespaces,
    }
    return render("account_step.html", frame, {**values, "lifetimes": LIFETIMES})
