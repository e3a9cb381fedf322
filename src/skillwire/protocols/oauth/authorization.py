"""The authorization code: the question that the browser carries, and judging what it brings back.

The question has a ``state`` that the answer must repeat, and the hash of a secret that the token endpoint is told
(PKCE, S256), so that neither a page of somebody else's can slip its own answer in, nor can a program that overhears
the answer use it. A server that names itself in the answer must be the one that was asked (RFC 9207), and one that
has promised to do so must do it. Spec: RFC 6749 §4.1, RFC 7636, RFC 8252 §8, RFC 9207 §2.4.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from skillwire.errors import DecodeError, Place, TrustError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.oauth.errors import refusal
from skillwire.protocols.oauth.messages import AuthorizationRequest

if TYPE_CHECKING:
    from skillwire.protocols.oauth.messages import ServerMetadata

_VERIFIER_LENGTH: Final = 64  # characters; 43 to 128 are allowed
_PLACE: Final = Place("the browser's answer")
_MOST_FIELDS: Final = 30


def ask_for_code(server: ServerMetadata, client_id: str, redirect_url: str, scope: str) -> AuthorizationRequest:
    """Return the question to ask in the browser.

    Args:
        server: has an authorization endpoint, which was checked.
        client_id: who asks.
        redirect_url: where the answer is awaited.
        scope: words with spaces between them; empty for what the server gives by itself.
    """
    from oauthlib.oauth2 import WebApplicationClient  # noqa: PLC0415  # only this login needs it

    url = str(server.authorization_url)
    client = WebApplicationClient(client_id)
    state = secrets.token_urlsafe(32)
    verifier = client.create_code_verifier(_VERIFIER_LENGTH)
    challenge = client.create_code_challenge(verifier, "S256")
    # OpenID Connect §11: a refresh token that outlasts the browser's session is given after consent only.
    consent = {"prompt": "consent"} if "offline_access" in scope.split() else {}
    scheme, _, rest = url.partition("://")
    # oauthlib knows no http on a loopback that the user has named; whether http will do was decided before.
    question = client.prepare_request_uri(
        f"https://{rest}",
        redirect_uri=redirect_url,
        scope=scope or None,
        state=state,
        code_challenge=challenge,
        code_challenge_method="S256",
        **consent,
    )
    return AuthorizationRequest(scheme + question.removeprefix("https"), state, verifier, redirect_url, server)


def read_answer(target: str, question: AuthorizationRequest) -> str:
    """Return the authorization code that the browser brings.

    Args:
        target: path and query of the request that the listener got.
        question: what was asked.

    Raises:
        TrustError: ``LOGIN_STATE``. FetchError: ``LOGIN_DENIED``, ``LOGIN_REFUSED``. DecodeError: ``LOGIN_ANSWER``.

    Trust: any page in the browser, and any program on this machine, can send one.
    """
    fields = _fields(target)
    if not hmac.compare_digest(fields.get("state", "").encode(), question.state.encode()):
        raise TrustError("LOGIN_STATE", "the state is not the one of this login", place=_PLACE)
    _check_issuer(fields.get("iss"), question.server)
    if "error" in fields:
        raise refusal(fields, _PLACE, [question.state, question.verifier])
    if not fields.get("code"):
        raise DecodeError("LOGIN_ANSWER", "the browser brought no code", place=_PLACE)
    return fields["code"]


def _fields(target: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(urlsplit(target).query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:  # its words may repeat what was sent
        raise DecodeError("LOGIN_ANSWER", "the browser's answer cannot be read", place=_PLACE) from None
    if len(dict(pairs)) != len(pairs):  # RFC 6749 §3.1: a parameter stands once
        raise DecodeError("LOGIN_ANSWER", "the browser's answer says something twice", place=_PLACE)
    return dict(pairs)


def _check_issuer(said: str | None, server: ServerMetadata) -> None:
    if said is None:
        if server.says_issuer:
            raise TrustError("LOGIN_STATE", "the answer does not say who gives it", place=_PLACE)
        return
    if server.issuer is not None:
        is_same = said == server.issuer
    else:  # nobody told the issuer's name; at least the answer must not be of another origin
        try:
            is_same = parse_url(said).origin == parse_url(str(server.authorization_url)).origin
        except ValidationError:  # what is no URL names nobody
            is_same = False
    if not is_same:
        raise TrustError("LOGIN_STATE", "the answer is of another authorization server", place=_PLACE)
