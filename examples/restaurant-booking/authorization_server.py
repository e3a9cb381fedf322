"""A STAND-IN for an authorization server, so that the example needs nothing else. Never use it for anything real.

It knows one program and one person, asks for no password, keeps everything in memory, makes a new signing key at
each start, and therefore listens on loopback only. What it shows is the protocol, which is the one of real servers:

- metadata at ``/.well-known/openid-configuration`` and ``/.well-known/oauth-authorization-server`` (RFC 8414);
- public keys at ``/jwks``; access tokens are JWTs (RFC 9068) that end after ten minutes;
- ``/auth``: authorization code with PKCE S256 (RFC 6749 §4.1, RFC 7636), for the public client ``concierge``, whose
  redirect URI is ``http://127.0.0.1:ANY-PORT/callback`` (RFC 8252 §7.3);
- ``/token``: redeems such codes, and gives tokens to the program ``concierge-robot`` itself (client credentials,
  RFC 6749 §4.4), which shows its secret.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import re
import secrets
import sys
import threading
import time
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

SCOPES = {"book:reservation": "Book a table in your name"}
PUBLIC_CLIENT = "concierge"
ROBOT, ROBOT_SECRET = "concierge-robot", "not-a-secret"
PERSON = "ada"
REDIRECT = re.compile(r"http://127\.0\.0\.1:\d{1,5}/callback")
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
TOKEN_SECONDS, CODE_SECONDS = 600, 60
FORM_BYTES = 16 * 1024
CODES = 1000  # that wait to be redeemed


class Refused(Exception):
    """The request is refused: an error code of RFC 6749 §5.2, and what is wrong."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class Code(NamedTuple):
    """What an authorization code stands for."""

    client: str
    redirect: str
    challenge: str
    scope: str
    ends: float


class Issuer:
    """Keys, codes and tokens."""

    def __init__(self, url: str, audience: str) -> None:
        self.url, self.audience = url, audience
        self._key = ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256", "kid": secrets.token_hex(8)})
        self._codes: dict[str, Code] = {}
        self._lock = threading.Lock()

    def metadata(self) -> dict[str, Any]:
        """Return what clients and resource servers begin with."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def keys(self) -> dict[str, Any]:
        """Return the public key, by which others see that a token is ours."""
        return KeySet([self._key]).as_dict(private=False)

    def check_question(self, question: dict[str, str]) -> Code:
        """Return what a person is asked to agree to."""
        if question.get("client_id") != PUBLIC_CLIENT:
            raise Refused("unauthorized_client", "no such client")
        if not REDIRECT.fullmatch(question.get("redirect_uri", "")):
            raise Refused("invalid_request", "the redirect URI is not one of this client")
        if question.get("response_type") != "code":
            raise Refused("unsupported_response_type", "only codes are given")
        if question.get("code_challenge_method") != "S256" or not CHALLENGE.fullmatch(
            question.get("code_challenge", "")
        ):
            raise Refused("invalid_request", "PKCE with S256 is required")
        scope = granted(question.get("scope", ""))
        ends = time.monotonic() + CODE_SECONDS
        return Code(question["client_id"], question["redirect_uri"], question["code_challenge"], scope, ends)

    def give_code(self, what: Code) -> str:
        """Return a code, which is good once and for a minute."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            if len(self._codes) >= CODES:
                self._codes.clear()
            self._codes[code] = what
        return code

    def redeem(self, form: dict[str, str]) -> dict[str, Any]:
        """Return the token for a code, to who can prove to have asked for it."""
        with self._lock:
            code = self._codes.pop(form.get("code", ""), None)
        if code is None or time.monotonic() > code.ends:
            raise Refused("invalid_grant", "no such code")
        if (form.get("client_id"), form.get("redirect_uri")) != (code.client, code.redirect):
            raise Refused("invalid_grant", "the code is another client's")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if not hmac.compare_digest(base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), code.challenge):
            raise Refused("invalid_grant", "the verifier is not that of the challenge")
        return self.token(subject=PERSON, client=code.client, scope=code.scope)

    def token(self, *, subject: str, client: str, scope: str) -> dict[str, Any]:
        """Return a token answer."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": self.audience,
            "sub": subject,
            "client_id": client,
            "scope": scope,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "jti": secrets.token_hex(16),
        }
        token = jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": self._key.kid}, claims, self._key)
        return {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_SECONDS, "scope": scope}


def granted(asked: str) -> str:
    """Return the scopes that are given of those that are asked for; all when nothing is asked for."""
    scopes = asked.split() or list(SCOPES)
    if unknown := set(scopes) - set(SCOPES):
        raise Refused("invalid_scope", f"unknown scope {min(unknown)}")
    return " ".join(scopes)


class Handler(BaseHTTPRequestHandler):
    """One connection. The server has the ``issuer``."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer metadata, keys, and the page that asks the person."""
        address = urlsplit(self.path)
        if address.path in ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"):
            self._send_json(200, self._issuer.metadata())
        elif address.path == "/jwks":
            self._send_json(200, self._issuer.keys())
        elif address.path == "/auth":
            self._answering(lambda: self._ask(first_of(address.query)))
        else:
            self._send_json(404, {"error": "not_found"})

    def do_POST(self) -> None:
        """Answer requests for tokens, and the person's yes."""
        routes = {"/auth": self._agreed, "/token": self._token}
        if (route := routes.get(self.path)) is None:
            self._send_json(404, {"error": "not_found"})
        else:
            self._answering(route)

    def log_message(self, *_: object) -> None:
        """Say nothing: what is asked holds secrets."""

    @property
    def _issuer(self) -> Issuer:
        return self.server.issuer

    def _ask(self, question: dict[str, str]) -> None:
        """Show who asks for what. A real server would have the person log in first."""
        what = self._issuer.check_question(question)
        fields = "".join(
            f'<input type="hidden" name="{escape(name)}" value="{escape(value)}"/>' for name, value in question.items()
        )
        wishes = "".join(f"<li>{escape(SCOPES[scope])} ({escape(scope)})</li>" for scope in what.scope.split())
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Log in (stand-in)</title>'
            "<p><strong>This is a stand-in for an authorization server, for an example. It asks for no password.</strong>"
            f"<p>{escape(what.client)} asks {escape(PERSON)} for:<ul>{wishes}</ul>"
            f'<form method="post" action="/auth">{fields}<button>Allow</button></form></html>'
        )
        self._send(200, "text/html; charset=utf-8", page.encode())

    def _agreed(self) -> None:
        question = self._form()
        parameters = {"code": self._issuer.give_code(self._issuer.check_question(question)), "iss": self._issuer.url}
        if "state" in question:
            parameters["state"] = question["state"]
        location = f"{question['redirect_uri']}?{urlencode(parameters, quote_via=quote)}"
        self._send(303, "text/plain", b"", {"Location": location})

    def _token(self) -> None:
        form = self._form()
        if form.get("grant_type") == "authorization_code":
            answer = self._issuer.redeem(form)
        elif form.get("grant_type") == "client_credentials":
            self._check_robot()
            answer = self._issuer.token(subject=ROBOT, client=ROBOT, scope=granted(form.get("scope", "")))
        else:
            raise Refused("unsupported_grant_type", "codes and client credentials are taken")
        self._send_json(200, answer)

    def _check_robot(self) -> None:
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        try:
            name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            name = secret = ""
        is_right = hmac.compare_digest(unquote_plus(secret).encode(), ROBOT_SECRET.encode())
        if kind.lower() != "basic" or unquote_plus(name) != ROBOT or not is_right:
            raise Refused("invalid_client", "the client or its secret is wrong", 401)

    def _form(self) -> dict[str, str]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > FORM_BYTES:
            self.close_connection = True
            raise Refused("invalid_request", "a short form is wanted", 413)
        return first_of(self.rfile.read(int(length)).decode(errors="replace"))

    def _answering(self, answer: Any) -> None:
        try:
            answer()
        except Refused as error:
            self._send_json(error.status, {"error": error.code, "error_description": str(error)})

    def _send_json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, body: bytes, fields: dict[str, str] | None = None) -> None:
        self.send_response(status)
        always = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in (always | (fields or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def first_of(query: str) -> dict[str, str]:
    """Return each parameter with its first value."""
    return {name: values[0] for name, values in parse_qs(query).items()}


def main() -> int:
    """Serve until the process is ended; the first line says where."""
    parser = argparse.ArgumentParser(description="A stand-in for an authorization server, on loopback only.")
    parser.add_argument("--port", type=int, default=9400, help="0 takes a free one (default 9400)")
    parser.add_argument("--audience", default="https://booking.example/", help="for whom its tokens are")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    server.issuer = Issuer(f"http://127.0.0.1:{server.server_port}", options.audience)
    print(f"stand-in for an authorization server at {server.issuer.url}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
