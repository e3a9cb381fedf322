"""The origins that the user allows, the credential of each, and the renewal of stored credentials.

Typed references, the user's own settings and accepted origins allow connections; a project's files allow none, since
they may come from an untrusted peer.

A flow has only a mark of a stored credential, in place of the value of ``Authorization``. The mark stays the same for a
login, so the cache survives a renewed token, and no flow holds a secret. :meth:`StoredCredentials.send` puts the header
field into each request to the credential's own origin just before it is sent, or signs the request.

A signature is valid once, and two equal requests of one second would share it. So the second one is dated a second
later, which a server must allow. Another process may use the same key: if the server has seen a signature, the next
seconds are tried, then random ones of the past, which concurrent processes rarely share. Spec: SSP §7.2.3.

A token is renewed before it expires, and after a 401, which repeats the request once. If the new token is refused as
well, it is not renewed again for a minute: an origin that always answers 401 causes one renewal.

One process renews at a time, since a server may treat a reused refresh token as theft: it locks the origin, reads the
store again (another process may have renewed), asks, and writes the new tokens before they are used. A crash leaves
either the old tokens or the new ones.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.codes import CODES
from skillwire.errors import ConflictError, DecodeError, FetchError, SkillwireError, SourceLocation
from skillwire.model.url import Url, parse_url
from skillwire.resolver.ladder import random_share
from skillwire.resolver.sources import FOLDER
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse, Sleep, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.adapters.files.credentials import CredentialStore
    from skillwire.model.credential import Credential
    from skillwire.protocols.oauth.messages import Tokens
    from skillwire.resolver.references import Reference
    from skillwire.trust.address import AddressPolicy

_UNAUTHORIZED: Final = 401
_PAUSE: Final = 0.05  # seconds between two attempts to get a lock that another process holds for one request
_REFUSALS: Final = frozenset({"AUTH_REQUIRED", "ACCESS_DENIED", "PERMISSION_DENIED"})
_ATTEMPTS: Final = 6  # to sign a request anew, after the first
_NEXT_SECONDS: Final = 3  # of these, well below what a server allows a clock to be ahead
_REVISION: Final = "Skillwire-Revision"
_LONGEST_REVISION: Final = 15  # digits


class StoredCredentials:
    """The stored credentials in use by one client; ``clock`` gives seconds since the epoch."""

    def __init__(self, store: CredentialStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._in_use: dict[str, Credential] = {}
        self._renewed_at: dict[str, float] = {}
        self._signer = RequestSigner(clock)
        self._changes: dict[str, int] = {}  # the last change of each registry that this client knows

    def take(self, origin: str) -> Credential | None:
        """Use the stored credential of ``origin`` from now on; return it."""
        credential = self._store.find(origin)
        return None if credential is None else self._in_use.setdefault(origin, credential)

    def is_sent(self, origin: str, mark: str) -> bool:
        """Whether ``mark``, which went to ``origin``, stands for a stored credential."""
        credential = self._in_use.get(origin)
        return credential is not None and credential.mark == mark

    def send(self, request: HttpRequest) -> Flow[HttpResponse]:
        """Make ``request`` with the stored credential of its mark, renewed if needed; raise ``LOGIN_EXPIRED``.

        A registry of several servers answers with all the changes that one of them has acknowledged to this client.
        """
        origin = parse_url(request.url).origin
        if change := self._changes.get(origin, 0):
            request = request._replace(headers={**request.headers, _REVISION: str(change)})
        response = yield from self._send(request)
        revision = response.headers.get(_REVISION.lower(), "")
        if revision.isascii() and revision.isdecimal() and len(revision) <= _LONGEST_REVISION:
            self._changes[origin] = max(int(revision), change)
        return response

    def _send(self, request: HttpRequest) -> Flow[HttpResponse]:
        response: HttpResponse
        mark = request.header("authorization")
        credential = None if mark is None else self._in_use.get(parse_url(request.url).origin)
        if credential is None or mark != credential.mark:
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
            return (yield from self._signer.send(request, credential))
        response: HttpResponse = yield _authorized(request, credential.header, credential.field_value)
        return response

    def _may_help(self, refused: Credential) -> bool:
        """Whether to repeat the request: there is a newer token, or the last renewal was not a moment ago."""
        if self._in_use[refused.origin].secret != refused.secret:
            return True
        last = self._renewed_at.get(refused.origin)
        return refused.renewable and (last is None or self._clock() - last > limits.TOKEN_RENEWAL_SECONDS)

    def _renew_if_ending(self, credential: Credential) -> Flow[None]:
        """Renew a token that expires within a minute; if the server is not reached, a valid one is used."""
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
        """Replace ``used`` by a newer token, under the lock of its origin."""
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
        # A new login has a new name; the flow knows this one by its old name.
        self._in_use[used.origin] = stored.changed(login=used.login)

    def _lock(self, origin: str) -> Flow[int]:
        """Wait for the lock in short steps: its holder might need the thread that waits."""
        end = time.monotonic() + 2 * limits.HTTP_REQUEST_SECONDS
        while True:
            try:
                return (yield from work(partial(self._store.lock_renewal, origin)))
            except ConflictError:
                if time.monotonic() > end:
                    raise
            yield Sleep(_PAUSE)


def renewed(credential: Credential, tokens: Tokens, now: float) -> Credential:
    """Return ``credential`` with new tokens; without a new refresh token the old one stays. Spec: RFC 6749 §6."""
    expires_at = None if tokens.expires_in is None else now + tokens.expires_in
    grant = credential.grant
    if grant is not None:
        scope = grant.scope if tokens.scope is None else tokens.scope
        grant = grant.changed(refresh_token=tokens.refresh_token or grant.refresh_token, scope=scope)
    return credential.changed(secret=tokens.access_token, expires_at=expires_at, grant=grant)


def _ended(credential: Credential, why: str) -> FetchError:
    fix = f"Run skillwire auth login {credential.origin}."
    return FetchError("LOGIN_EXPIRED", why, place=SourceLocation(credential.origin), fix=fix)


class OriginAccess:
    """The origins that the user allows; each reference adds its own.

    ``credentials``: origin → value of ``Authorization``, or the mark of a ``stored`` one.
    """

    def __init__(
        self,
        addresses: AddressPolicy,
        store: CredentialStore,
        *,
        find_token: Callable[[Url, Mapping[str, str]], str | None],
        find_password: Callable[[Url, Mapping[str, str]], str | None],
    ) -> None:
        self.addresses = addresses
        self.credentials: dict[str, str] = {}
        self.stored = StoredCredentials(store)
        self._find_token, self._find_password = find_token, find_password
        self._preferred: dict[str, str] = {}
        self._unknown: set[str] = set()

    def prefer(self, origin: str, authorization: str) -> None:
        """Prefer ``authorization`` for ``origin`` to environment, store and ``~/.netrc``."""
        self._preferred[str(parse_url(origin).origin)] = authorization

    def allow(self, reference: Reference) -> None:
        """Allow connecting to the origins of a typed reference, and find their credentials."""
        for lookup in reference.lookups:
            if lookup.source != FOLDER and "://" in lookup.url:  # else it is no place on the web
                self.allow_url(lookup.url)

    def allow_url(self, text: str) -> None:
        """Allow connecting to a URL of the user, as :meth:`allow` does."""
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        self._unknown.discard(str(url.origin))
        self.attach_credential(url)

    def allow_lan_server(self, text: str, *, with_credential: bool) -> None:
        """Allow connecting to a server that was found on the local network, and to no other port.

        Without ``with_credential`` no stored credential is sent: the address may have another host since the login.
        """
        if with_credential:
            self.allow_url(text)
            return
        url = parse_url(text)
        self.addresses = self.addresses.naming(url)
        if url.origin not in self.credentials:
            self._unknown.add(str(url.origin))

    def find_credential(self, url: Url) -> str | None:
        """Return the credential of the origin of ``url`` without using it, even if the user did not name the origin."""
        origin = str(url.origin)
        if origin in self._unknown:
            return None
        credential = self._preferred.get(origin) or self._find_token(url, os.environ) or self._take_stored(origin)
        return credential or self._find_password(url, os.environ)

    def attach_credential(self, url: Url) -> None:
        """Use the credential of an accepted origin, without allowing its address."""
        if credential := self.find_credential(url):
            self.credentials[str(url.origin)] = credential

    def explain(self, error: BaseException) -> None:
        """Complete a refusal with the credential that was sent, and a fix."""
        if not isinstance(error, SkillwireError) or error.code not in _REFUSALS or error.place is None:
            return
        try:
            origin = parse_url(error.place.source.partition("#")[0]).origin
        except SkillwireError:
            return  # not about an address
        registry, is_registry, _ = error.place.source.partition("/api/registry/")
        login = f"skillwire auth login {f'--registry {registry}' if is_registry else origin}"
        error.in_python = f'client.set_token("{origin}", "TOKEN")'
        sent, default = self.credentials.get(origin), CODES[error.code].fix
        if error.code == "PERMISSION_DENIED":
            if _is_closed(error):
                error.in_python = ""
            elif sent is None and ((error.fix or default) == default or str(error.fix).startswith("Send ")):
                error.fix = f"No credential was sent. Run {login}, with one that opens it."
        elif sent is None:
            error.fix = f"Run {login}." if error.code == "AUTH_REQUIRED" else error.fix
            wanted = error.details.get("details")  # of Skill Sharing: the method, and where tokens come from
            names = ("required_auth_type", "authorization_url")
            offered = [str(wanted[name]) for name in names if name in wanted] if isinstance(wanted, dict) else []
            if offered:
                error.fix = f"{error.fix} It takes {neutralise(', '.join(offered))[:300]}."
        elif self.stored.is_sent(origin, sent):
            error.fix = (
                f"The stored credential of {origin} was sent. Run {login} for a new one, "
                f"or skillwire auth logout {origin} to go without."
            )
        else:
            given = "--token, SKILLWIRE_TOKENS or ~/.netrc"
            error.fix = (
                f"The credential of {origin} from {given} was sent. Give another one, or leave it away and run {login}."
            )

    def _take_stored(self, origin: str) -> str | None:
        credential = self.stored.take(origin)
        if credential is None:
            return None
        if credential.grant is not None:  # the login named the server that renews the token
            self.addresses = self.addresses.naming(parse_url(credential.grant.token_url))
        return credential.mark


def _is_closed(error: SkillwireError) -> bool:
    """Return whether a server of the Skills Protocol opens what was asked for to no caller."""
    data = error.details.get("data")
    details = data.get("details") if isinstance(data, dict) else None
    return isinstance(details, dict) and details.get("reason") == "closed"


class RequestSigner:
    """Signs requests, in any thread; ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[str | None, str, str, bytes], int] = {}

    def send(self, request: HttpRequest, key: Credential) -> Flow[HttpResponse]:
        """Send ``request`` signed with ``key``."""
        response: HttpResponse = yield self.sign(request, key)
        for attempt in range(_ATTEMPTS):
            if not _is_repeated(response):
                break
            is_crowded = attempt >= _NEXT_SECONDS
            past = 1 + int(random_share() * (limits.SIGNATURE_WINDOW_SECONDS // 2)) if is_crowded else 0
            response = yield self.sign(request, key, past=past)
        return response

    def sign(self, request: HttpRequest, key: Credential, *, past: int = 0) -> HttpRequest:
        """Return ``request`` with a new signature in place of ``Authorization``, dated ``past`` seconds ago."""
        from skillwire.protocols.skill_sharing.signing import HEADER, sign  # noqa: PLC0415  # few logins are keys

        body = request.body or b""
        target = parse_url(request.url).target
        asked = (key.key_id, request.method, request.url, body)
        timestamp = int(self._clock()) - past if past else self._next_time(asked)
        signature = sign(str(key.key_id), key.secret.encode("ascii"), request.method, target, body, timestamp=timestamp)
        return _authorized(request, HEADER, str(signature))

    def _next_time(self, signed: tuple[str | None, str, str, bytes]) -> int:
        with self._lock:
            now = int(self._clock())
            self._last = {known: time for known, time in self._last.items() if time >= now}
            self._last[signed] = max(now, self._last.get(signed, 0) + 1)
            return self._last[signed]


def _authorized(request: HttpRequest, header: str, value: str) -> HttpRequest:
    """Return ``request`` with a header field in place of ``Authorization``."""
    headers = {name: text for name, text in request.headers.items() if name.lower() != "authorization"}
    return request._replace(headers={**headers, header: value})


def _is_repeated(response: HttpResponse) -> bool:
    """Whether the server has refused the signature as repeated. Trust: a false claim costs a few requests."""
    if response.status != _UNAUTHORIZED:
        return False
    try:
        document: Any = load_json(response.body, max_bytes=limits.DESCRIPTOR_BYTES, source=response.url)
        return bool(document["error"]["details"]["reason"] == "repeated")
    except (DecodeError, LookupError, TypeError):  # an error of another form
        return False
