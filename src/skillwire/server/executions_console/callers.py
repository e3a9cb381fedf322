"""What people call the callers of executions, and whom they mean when they name one.

The ledger keeps a caller as :func:`skillwire.server.auth.rate_limit.caller_of` writes it: ``identity TOKEN``,
``principal NAME`` or ``address NETWORK``. On a page that is the name of the token, the name, or the address.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from skillwire.errors import NotFoundError
from skillwire.server.auth.rate_limit import network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.registry.tokens import Tokens

_IDENTITY: Final = "identity "
_PRINCIPAL: Final = "principal "
_ADDRESS: Final = "address "


class Callers:
    """Names for callers; it reads the tokens, so not on the event loop."""

    def __init__(self, tokens: Callable[[], Tokens]) -> None:
        self._tokens = tokens

    def names(self, callers: Iterable[str]) -> dict[str, str]:
        """Return a name for each caller."""
        return {caller: self._name(caller) for caller in set(callers)}

    def caller_of(self, typed: str) -> str:
        """Return the caller that is meant by what somebody typed: a caller, an address, the name or ID of a token.

        Of several tokens with one name it is the newest.
        """
        if typed.startswith((_IDENTITY, _PRINCIPAL, _ADDRESS)):
            return typed
        try:
            ipaddress.ip_address(typed)
        except ValueError:
            known = [token for token in self._tokens().all() if typed in {token.name, token.token_id}]
            return f"{_IDENTITY}{known[-1].token_id}" if known else f"{_PRINCIPAL}{typed}"
        return f"{_ADDRESS}{network_of(typed)}"

    def _name(self, caller: str) -> str:
        kind, _, name = caller.partition(" ")
        if f"{kind} " != _IDENTITY:
            return name or caller
        try:
            return self._tokens().look_up(name).name
        except NotFoundError:  # of a signed request of long ago, or an issuer's
            return name
