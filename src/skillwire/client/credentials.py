"""Which origins the user allows, which credential each gets, and how stored credentials are renewed.

A project's files allow nothing: they may come from an untrusted peer. What counts is what was typed, what the user's
own settings say, and origins that the user has agreed to.

A flow knows a stored credential by a mark only, which stands where the value of ``Authorization`` would. The mark stays
the same as long as the login lasts, so the cache keeps what it knows when a token is renewed; and no flow holds a
secret. :meth:`StoredCredentials.send` puts the real header field into each request to the credential's own origin, the
moment before it goes out, or signs the request with a key that is sent nowhere.

A token is renewed ahead of its end, and when a request is answered with 401: then the same request goes out again with
the new token, and the flow that made it never knows. When the new token is refused as well, that is the answer, for a
minute: an origin that says 401 to everything causes one renewal, not one for each request.

Only one process renews at a time, since a server may take the use of an old refresh token for theft: it holds the lock
of the origin, reads the store again (another one may have renewed it already), asks, and writes the new tokens before
anything uses them. A crash before that leaves the old ones, after it the new ones.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.files.credentials import bearer, find_password, find_token, open_store
from skillwire.codes import CODES
from skillwire.errors import ConflictError, FetchError, SkillwireError, SourceLocation
from skillwire.model.url import parse_url
from skillwire.wire.exchange import Sleep, work

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.credentials import CredentialStore
    from skillwire.client.request_signing import RequestSigner
    from skillwire.model.credential import Credential
    from skillwire.model.url import Url
    from skillwire.protocols.oauth.messages import Tokens
    from skillwire.resolver.references import Reference
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse

_UNAUTHORIZED: Final = 401
_PAUSE: Final = 0.05  # seconds between two looks at a lock that another process holds for one request


class StoredCredentials:
    """Those of the store that the user has named an origin of, while one client lasts.

    Args:
        store: where they are.
        clock: seconds since the epoch.
    """

    def __init__(self, store: CredentialStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._in_use: dict[str, Credential] = {}
        self._renewed_at: dict[str, float] = {}
        self._signer: RequestSigner | None = None

    def take(self, origin: str) -> Credential | None:
        """Use the stored credential of ``origin`` from now on; return it, or None when there is none."""
        credential = self._store.find(origin)
        if credential is None:
            return None
        if credential.kind == "custom" and self._signer is None:
            from skillwire.client.request_signing import RequestSigner  # noqa: PLC0415  # few logins are keys

            self._signer = RequestSigner(self._clock)
        return self._in_use.setdefault(origin, credential)

    def is_sent(self, origin: str, mark: str) -> bool:
        """Whether ``mark``, which went to ``origin``, stands for a stored credential."""
        credential = self._in_use.get(origin)
        return credential is not None and credential.mark == mark

    def send(self, request: HttpRequest) -> Flow[HttpResponse]:
        """Make ``request`` with the stored credential that its mark stands for, renewed where that is needed.

        Raises:
            FetchError: ``LOGIN_EXPIRED``, the token has ended and cannot be renewed; from the runner.
        """
        response: HttpResponse
        credential = self._credential_for(request)
        if credential is None:
            response = yield request
            return response
        yield from self._renew_if_ending(credential)
        used = self._in_use[credential.origin]
        response = yield from self._send_with(request, used)
        if response.status == _UNAUTHORIZED and self._may_help(used):
            yield from self._renew(used)
            response = yield from self._send_with(request, self._in_use[credential.origin])
        return response

    def _send_with(self, request: HttpRequest, credential: Credential) -> Flow[HttpResponse]:
        if credential.kind == "custom":
            assert self._signer is not None  # noqa: S101  # take() has made it
            return (yield from self._signer.send(request, credential))
        headers = {name: value for name, value in request.headers.items() if name.lower() != "authorization"}
        response: HttpResponse = yield request._replace(headers={**headers, credential.header: credential.field_value})
        return response

    def _credential_for(self, request: HttpRequest) -> Credential | None:
        mark = request.header("authorization")
        if mark is None:
            return None
        credential = self._in_use.get(parse_url(request.url).origin)
        return credential if credential is not None and mark == credential.mark else None

    def _may_help(self, refused: Credential) -> bool:
        """Whether to ask again with another token: there is one already, or the last was not got a moment ago."""
        if self._in_use[refused.origin].secret != refused.secret:
            return True
        last = self._renewed_at.get(refused.origin)
        return refused.renewable and (last is None or self._clock() - last > limits.TOKEN_RENEWAL_SECONDS)

    def _renew_if_ending(self, credential: Credential) -> Flow[None]:
        """Renew a token that ends within a minute; one that still holds may do when the server is not reached."""
        if credential.expires_at is None:
            return
        left = credential.expires_at - self._clock()
        if left > limits.TOKEN_RENEWAL_SECONDS:
            return
        if not credential.renewable:
            if left <= 0:
                raise _ended(credential, "the token has expired, and none came with it to renew it")
            return
        try:
            yield from self._renew(credential)
        except FetchError as error:
            if left <= 0 or not error.retryable:
                raise

    def _renew(self, used: Credential) -> Flow[None]:
        """Put a newer token in the place of ``used``, while no other process and no other flow does."""
        handle = yield from self._lock(used.origin)
        unlock = partial(self._store.unlock_renewal, used.origin, handle)
        try:
            yield from self._renew_alone(used)
        except GeneratorExit:  # the run was abandoned
            unlock()
            raise
        except BaseException:
            yield from work(unlock)
            raise
        yield from work(unlock)

    def _renew_alone(self, used: Credential) -> Flow[None]:
        stored = yield from work(partial(self._store.find, used.origin))
        if stored is None or stored.grant is None:
            raise _ended(used, "the login there ended a moment ago")
        if stored.secret == used.secret:
            from skillwire.protocols.oauth.client import renew  # noqa: PLC0415  # one run in many renews

            tokens = yield from renew(stored.grant)
            stored = renewed(stored, tokens, self._clock())
            yield from work(partial(self._store.keep, stored))
            self._renewed_at[used.origin] = self._clock()
        from dataclasses import replace  # noqa: PLC0415  # one run in many renews

        # A login of a moment ago has another name; the flow knows this one by the name that it had.
        self._in_use[used.origin] = replace(stored, login=used.login)

    def _lock(self, origin: str) -> Flow[int]:
        """Wait for the lock in short steps: a thread that sleeps on it might be the one that its holder needs."""
        end = time.monotonic() + 2 * limits.HTTP_REQUEST_SECONDS
        while True:
            try:
                return (yield from work(partial(self._store.lock_renewal, origin)))
            except ConflictError:
                if time.monotonic() > end:
                    raise
            yield Sleep(_PAUSE)


def renewed(credential: Credential, tokens: Tokens, now: float) -> Credential:
    """Return ``credential`` with new tokens. A refresh token stays where no new one came. Spec: RFC 6749 §6."""
    from dataclasses import replace  # noqa: PLC0415  # one run in many renews

    expires_at = None if tokens.expires_in is None else now + tokens.expires_in
    grant = credential.grant
    if grant is not None:
        scope = grant.scope if tokens.scope is None else tokens.scope
        grant = replace(grant, refresh_token=tokens.refresh_token or grant.refresh_token, scope=scope)
    return replace(credential, secret=tokens.access_token, expires_at=expires_at, grant=grant)


def _ended(credential: Credential, why: str) -> FetchError:
    fix = f"Run skillwire auth login {credential.origin}."
    return FetchError("LOGIN_EXPIRED", why, place=SourceLocation(credential.origin), fix=fix)


_REFUSALS: Final = frozenset({"AUTH_REQUIRED", "ACCESS_DENIED", "PERMISSION_DENIED"})


class OriginAccess:
    """The origins that the user allows; each reference adds its own.

    ``credentials`` are values of ``Authorization`` by origin, or marks of ``stored`` ones, which are replaced
    when a request goes out.
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

    def allow(self, reference: Reference) -> None:
        """Allow to connect to what the user typed, and find the credential for it."""
        for lookup in reference.lookups:
            self.allow_url(lookup.url)

    def allow_url(self, text: str) -> None:
        """Allow to connect to a URL of the user, as :meth:`allow` does."""
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        self._unknown.discard(str(url.origin))
        if credential := self.find_credential(url):
            self.credentials[str(url.origin)] = credential

    def allow_lan_server(self, text: str, *, with_credential: bool) -> None:
        """Let connections lead to the origin of a URL that was found on the local network, and to no other port.

        Without ``with_credential`` no stored credential goes there: the host at an address may have changed since the
        login.
        """
        if with_credential:
            self.allow_url(text)
            return
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        if url.origin not in self.credentials:
            self._unknown.add(str(url.origin))

    def find_credential(self, url: Url) -> str | None:
        """Return the credential of the origin of ``url``, whether or not the user has named it; nothing sends it."""
        origin = str(url.origin)
        if origin in self._unknown:
            return None
        credential = self._tokens.get(origin) or find_token(url, os.environ) or self._take_stored(origin)
        return credential or find_password(url, os.environ)

    def attach_credential(self, url: Url) -> None:
        """Send the credential of an origin that the user has agreed to, and open no address by that."""
        if credential := self.find_credential(url):
            self.credentials[str(url.origin)] = credential

    def explain(self, error: BaseException) -> None:
        """Complete an error of an origin that refuses access with the credential that it was sent, and with a fix."""
        if not isinstance(error, SkillwireError) or error.code not in _REFUSALS or error.place is None:
            return
        try:
            origin = parse_url(error.place.source.partition("#")[0]).origin
        except SkillwireError:
            return  # it is not about an address
        sent, default = self.credentials.get(origin), CODES[error.code].fix
        if error.code == "PERMISSION_DENIED":
            if sent is None and ((error.fix or default) == default or str(error.fix).startswith("Send ")):
                error.fix = f"No credential was sent. Run skillwire auth login {origin}, with one that opens it."
        elif sent is None:
            error.fix = f"Run skillwire auth login {origin}." if error.code == "AUTH_REQUIRED" else error.fix
        elif self.stored.is_sent(origin, sent):
            error.fix = (
                f"The stored credential of {origin} was sent. Run skillwire auth login {origin} for a new one, "
                f"or skillwire auth logout {origin} to go without."
            )
        else:
            given = "--token, SKILLWIRE_TOKENS or ~/.netrc"
            error.fix = (
                f"The credential of {origin} from {given} was sent. Give another one, "
                f"or leave it away and run skillwire auth login {origin}."
            )

    def _take_stored(self, origin: str) -> str | None:
        credential = self.stored.take(origin)
        if credential is None:
            return None
        if credential.grant is not None:  # the login has named the server that renews the token, too
            self.addresses = self.addresses.naming(parse_url(credential.grant.token_url))
        return credential.mark
