"""What the user has named: leave to connect there, and to send the credential that belongs there.

A project's files name nothing: they may be a stranger's. What counts is what was typed, what the user's own settings
say, and origins that the user has agreed to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skillwire.adapters.files.credential_store import open_store
from skillwire.adapters.files.credentials import bearer, find_password, find_token
from skillwire.client.renewal import StoredCredentials
from skillwire.model.url import parse_url

if TYPE_CHECKING:
    from skillwire.resolver.reference import Reference
    from skillwire.trust.address import AddressPolicy


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
        origin = str(url.origin)
        credential = self._tokens.get(origin) or find_token(url, os.environ) or self._take_stored(origin)
        if credential := credential or find_password(url, os.environ):
            self.credentials[origin] = credential

    def _take_stored(self, origin: str) -> str | None:
        credential = self.stored.take(origin)
        if credential is None:
            return None
        if credential.grant is not None:  # who has logged in there has named the server that renews the token, too
            self.addresses = self.addresses.naming(parse_url(credential.grant.token_url))
        return credential.mark
