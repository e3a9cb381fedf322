"""Accounts of a registry: the first operator, and the tokens that accounts make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.errors import UsageError
from skillwire.model.package import Account, Change, is_account
from skillwire.registry.packages import ADMIN, PUBLISH, READ

if TYPE_CHECKING:
    from skillwire.ports import PackageStore
    from skillwire.registry.tokens import Issued, Tokens


def check_account(name: str) -> str:
    """Return ``name``. Raises UsageError (``ACCOUNT_FORM``) for what is no account's name."""
    if not is_account(name):
        fix = "Use lower-case letters, digits, dots, hyphens and underscores, at most 64 characters."
        raise UsageError("ACCOUNT_FORM", f"{ascii(name)[:80]} is no name of an account", fix=fix)
    return name


async def make_first_operator(store: PackageStore, tokens: Tokens, name: str, now: float) -> Issued | None:
    """Make the first operator, and a token for everything; None when there is an operator already.

    Raises UsageError (``ACCOUNT_FORM``).
    """
    check_account(name)
    if await store.has_operator():
        return None
    change = Change(now, name, "account.create", name, {"operator": True})
    await store.add_account(Account(name, now, is_operator=True), change)
    return await tokens.issue(f"{name} (first operator)", scopes=(READ, PUBLISH, ADMIN), account=name)
