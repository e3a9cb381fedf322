"""What the user has named: leave to connect there, and to send the credential that belongs there.

A project's files name nothing: they may be a stranger's. What counts is what was typed, what the user's own settings
say, and origins that the user has agreed to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

from skillwire.adapters.files.credential_store import open_store
from skillwire.adapters.files.credentials import bearer, find_password, find_token
from skillwire.client.renewal import StoredCredentials
from skillwire.codes import CODES
from skillwire.errors import SkillwireError
from skillwire.model.url import parse_url
from skillwire.resolver.flow import FetchAll

if TYPE_CHECKING:
    from skillwire.model.url import Url
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.reference import Reference
    from skillwire.trust.address import AddressPolicy

T = TypeVar("T")

_REFUSALS: Final = frozenset({"AUTH_REQUIRED", "ACCESS_DENIED", "PERMISSION_DENIED"})


class Leave:
    """Grows with each name.

    ``credentials`` are values of ``Authorization`` by origin, or marks of ``stored`` ones, which put themselves in
    their place when a request goes out.
    """

    def __init__(self, addresses: AddressPolicy) -> None:
        self.addresses = addresses
        self.credentials: dict[str, str] = {}
        self.stored = StoredCredentials(open_store())
        self._tokens: dict[str, str] = {}
        self._unknown: set[str] = set()

    def set_token(self, origin: str, token: str) -> None:
        """Prefer ``token`` for ``origin`` to what the environment and ``~/.netrc`` hold."""
        self._tokens[str(parse_url(origin).origin)] = bearer(token)

    def name(self, reference: Reference) -> None:
        """Take what the user typed as leave to connect there, and find the credential for it."""
        for lookup in reference.lookups:
            self.name_url(lookup.location.url)

    def name_url(self, text: str) -> None:
        """Take a URL that the user means as leave, as :meth:`name` does."""
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        self._unknown.discard(str(url.origin))
        if credential := self.look_up(url):
            self.credentials[str(url.origin)] = credential

    def open(self, text: str, *, with_credential: bool) -> None:
        """Let connections lead to the origin of a URL that was found on the local network, and to no other port.

        Without ``with_credential`` nothing that is kept for that origin goes there: whoever answers at an address now
        need not be who was there when the user logged in.
        """
        if with_credential:
            self.name_url(text)
            return
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        if url.origin not in self.credentials:
            self._unknown.add(str(url.origin))

    def look_up(self, url: Url) -> str | None:
        """Return the credential of the origin of ``url``, whether or not the user has named it; nothing sends it."""
        origin = str(url.origin)
        if origin in self._unknown:
            return None
        credential = self._tokens.get(origin) or find_token(url, os.environ) or self._take_stored(origin)
        return credential or find_password(url, os.environ)

    def lend(self, url: Url) -> None:
        """Send the credential of an origin that the user has agreed to, and open no address by that."""
        if credential := self.look_up(url):
            self.credentials[str(url.origin)] = credential

    def sending(self, flow: Flow[T]) -> Flow[T]:
        """Return ``flow`` with stored credentials in its requests, and with what mends it in errors about them."""
        return self.stored.sending(self._explaining(flow))

    def explain(self, error: BaseException) -> None:
        """Say in an error of an origin that refuses us which credential it was sent, if any, and what mends that."""
        if not isinstance(error, SkillwireError) or error.code not in _REFUSALS or error.place is None:
            return
        try:
            origin = parse_url(error.place.source.partition("#")[0]).origin
        except SkillwireError:
            return  # it is not about an address
        sent, default = self.credentials.get(origin), CODES[error.code].fix
        if error.code == "PERMISSION_DENIED":
            if sent is None and ((error.fix or default) == default or str(error.fix).startswith("Send ")):
                error.fix = f"No credential was sent. Run skillwire login {origin}, with one that opens it."
        elif sent is None:
            error.fix = f"Run skillwire login {origin}." if error.code == "AUTH_REQUIRED" else error.fix
        elif self.stored.is_sent(origin, sent):
            error.fix = (
                f"The stored credential of {origin} was sent. Run skillwire login {origin} for a new one, "
                f"or skillwire logout {origin} to go without."
            )
        else:
            given = "--token, SKILLWIRE_TOKENS or ~/.netrc"
            error.fix = (
                f"The credential of {origin} from {given} was sent. Give another one, "
                f"or leave it away and run skillwire login {origin}."
            )

    def _explaining(self, flow: Flow[T]) -> Flow[T]:
        try:
            step = next(flow)
            while True:
                try:
                    result = yield step
                except BaseException as error:  # noqa: BLE001  # an interruption, too, is for the flow to clean up after
                    self.explain(error)
                    step = flow.throw(error)
                else:
                    if isinstance(step, FetchAll):
                        for one in result:
                            self.explain(one)
                    step = flow.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any

    def _take_stored(self, origin: str) -> str | None:
        credential = self.stored.take(origin)
        if credential is None:
            return None
        if credential.grant is not None:  # who has logged in there has named the server that renews the token, too
            self.addresses = self.addresses.naming(parse_url(credential.grant.token_url))
        return credential.mark
