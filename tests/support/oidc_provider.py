"""A real authorization server from npm, ended with the context, and what a test does with it.

``provider.approve(url)`` is the person at the browser: it follows redirects, submits every form and says yes.
"""

import base64
import contextlib
import http.cookiejar
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final, NamedTuple

import pytest
from tests.interop.peers import find_peer
from tests.support.eventually import PATIENCE

#: The resource whose access tokens are JWTs, and the one whose are opaque.
JWT_RESOURCE: Final = "https://skills.example/"
OPAQUE_RESOURCE: Final = "https://opaque.example/"
_FORM: Final = re.compile(r'<form[^>]*\baction="([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_INPUT: Final = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)"/>')


class Client(NamedTuple):
    """A client that the server knows; a public one has no secret."""

    client_id: str
    secret: str | None = None


#: May get tokens of its own: the client_credentials grant.
SERVICE: Final = Client("service", "service-secret")
#: A program on a person's machine: authorization code with PKCE S256, device flow, refresh tokens that rotate. Its
#: redirect URI is ``http://127.0.0.1:ANY-PORT/callback``.
NATIVE: Final = Client("native")
#: Signs people in to the pages of a registry; its redirect URI is ``http://127.0.0.1:ANY-PORT/account/sign-in/answer``.
CONSOLE: Final = Client("console", "console-secret")
#: May introspect.
RESOURCE_SERVER: Final = Client("resource-server", "resource-server-secret")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_options: Any) -> None:
        return None


@dataclass(frozen=True)
class OidcProvider:
    """A running server. ``metadata`` is its ``/.well-known/openid-configuration``; the person there is ``alice``."""

    issuer: str
    metadata: dict[str, Any] = field(repr=False)

    def __getattr__(self, name: str) -> str:
        try:
            return str(self.metadata[name])
        except KeyError:
            raise AttributeError(name) from None

    def token(self, *, resource: str = JWT_RESOURCE, scope: str = "skill:forecast", client: Client = SERVICE) -> str:
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        return str(self.post(self.token_endpoint, form, client)["access_token"])

    def revoke(self, token: str, client: Client = SERVICE) -> None:
        """Take a token back; a JWT cannot be."""
        self.post(self.revocation_endpoint, {"token": token}, client)

    def introspect(self, token: str, client: Client = RESOURCE_SERVER) -> dict[str, Any]:
        return self.post(self.introspection_endpoint, {"token": token}, client)

    def change_keys(self) -> None:
        """Sign with new keys from now on; the old ones are gone from the JWKS."""
        self.post(f"{self.issuer}/test/keys", {})

    def set_lifetime(self, seconds: int) -> None:
        """Give access tokens this lifetime from now on; it begins with 300 s."""
        self.post(f"{self.issuer}/test/lifetime?seconds={seconds}", {})

    def add_resource(self, url: str, scope: str) -> None:
        """Make JWTs with these scopes for a resource; there is no default resource from now on."""
        query = urllib.parse.urlencode({"url": url, "scope": scope})
        self.post(f"{self.issuer}/test/resource?{query}", {})

    def post(self, url: str, form: dict[str, str], client: Client | None = None) -> dict[str, Any]:
        """Send a form, as ``client``; return the JSON of the answer, also of a 400."""
        request = urllib.request.Request(url, urllib.parse.urlencode(form).encode())  # noqa: S310  # of loopback
        if client and client.secret:
            userinfo = base64.b64encode(f"{client.client_id}:{client.secret}".encode()).decode()
            request.add_header("Authorization", f"Basic {userinfo}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310  # of loopback
                body = response.read()
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
        return json.loads(body) if body else {}

    def approve(self, url: str, *, visit_callback: bool = False) -> str:
        """Be the person who opens ``url`` in a browser of their own and says yes to everything.

        Takes an authorization request or a ``verification_uri_complete``. Returns the URL of the last page: the
        client's redirect URI with ``code`` and ``state``, which is only opened with ``visit_callback``.
        """
        jar = http.cookiejar.CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar), _NoRedirect())
        form: bytes | None = None
        for _ in range(20):
            if not url.startswith(self.issuer + "/") and not visit_callback:
                return url
            page, location = _visit(opener, url, form)
            form = None
            if location:
                url = urllib.parse.urljoin(url, location)
            elif url.startswith(self.issuer + "/") and (found := _FORM.search(page)):
                url = urllib.parse.urljoin(url, unescape(found[1]))
                fields = {unescape(name): unescape(value) for name, value in _INPUT.findall(found[2])}
                form = urllib.parse.urlencode(fields).encode()
            else:
                assert "<title>error" not in page, page
                return url
        raise AssertionError(f"no end of redirects and forms at {url}")


def _visit(opener: urllib.request.OpenerDirector, url: str, form: bytes | None) -> tuple[str, str | None]:
    try:
        with opener.open(url, form, timeout=PATIENCE) as response:
            return response.read().decode(), None
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode(), error.headers.get("Location")


@contextlib.contextmanager
def running_oidc_provider() -> Iterator[OidcProvider]:
    """Run the server for the time of the context; skip the test when the peers from npm are not installed."""
    command = find_peer("oidc_provider")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "NODE_ENV": "test"}
    server = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, "the authorization server ended"
        issuer = json.loads(line)["issuer"]
        with urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration", timeout=PATIENCE) as response:  # noqa: S310  # of loopback
            yield OidcProvider(issuer, json.load(response))
    finally:
        server.kill()
        server.communicate()


@pytest.fixture(scope="module")
def oidc_provider() -> Iterator[OidcProvider]:
    """Give a running authorization server; a module imports this name to have it."""
    with running_oidc_provider() as provider:
        yield provider
