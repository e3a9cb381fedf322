"""A browser over HTTP without scripts: it keeps cookies, follows no redirect, and sends forms as pages do."""

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import NamedTuple

from tests.support.eventually import PATIENCE

_TOKEN = re.compile(r'name="token" value="([^"]*)"')


class Shown(NamedTuple):
    """A page, or where one leads."""

    status: int
    text: str
    location: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments, **_options):
        return None


class HttpBrowser:
    """Visits the site at ``address``."""

    def __init__(self, address):
        self.address = address
        self.jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar), _NoRedirect())

    def get(self, target, form=None):
        """Open a path, or a whole URL; with ``form`` send it."""
        url = urllib.parse.urljoin(self.address, target)
        body = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, body, {"Accept": "text/html", "Origin": self.address})  # noqa: S310  # of loopback
        try:
            with self._opener.open(request, timeout=PATIENCE) as response:
                return Shown(response.status, response.read().decode(), "")
        except urllib.error.HTTPError as error:
            with error:
                return Shown(error.code, error.read().decode(), error.headers.get("Location", ""))

    def act(self, target, form, page="/account"):
        """Send a form with the token of the session, which ``page`` has."""
        found = _TOKEN.search(self.get(page).text)
        return self.get(target, {"token": found[1] if found else "", **form})

    def sign_in(self, key):
        return self.get("/login", {"key": key, "next": ""})
