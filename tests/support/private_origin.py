"""An origin on loopback that lets nobody see its skills without a credential, and says what it wants.

It records each request's path and header fields. What counts as a credential, and what its documents say, is the
test's to decide; both may be changed while it runs.
"""

import base64
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.loopback_server import Handler, LoopbackServer

from skillwire.protocols.agent_skills.messages import SCHEMA_URI

SKILL = b"---\nname: secret-plan\ndescription: Plans in secret. Use when a secret plan is asked for.\n---\nPlan.\n"


class PrivateOrigin:
    """What it answers: ``documents`` to anybody, the skills to those whom ``accepts`` takes.

    ``auth`` is the AuthConfig of its descriptor, and of the details of its 401.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.auth: dict[str, Any] = {"type": "none"}
        self.challenge = "Bearer"
        self.accepts: Callable[[dict[str, str]], bool] = lambda _: False
        self.documents: dict[str, Any] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    def describe(self) -> None:
        """Publish an index of Skill Sharing and a descriptor that says ``auth``."""
        self.documents["/.well-known/skill-sharing"] = {
            "protocol": {"version": "1.0.0"},
            "provider": {"name": "Example"},
            "skills": [{**self._head(), "descriptor_url": "/d.json"}],
        }
        self.documents["/d.json"] = {
            **self._head(),
            "protocol": {"version": "1.0.0"},
            "provider": {"name": "Example"},
            "endpoint": {"url": f"{self.url}/run", "method": "POST"},
            "inputs": [],
            "output": {"content_type": "application/json"},
            "auth": self.auth,
        }

    def sent(self, field: str) -> list[str]:
        """Return every value of a header field that came, in order."""
        return [headers[field] for _, headers in self.requests if field in headers]

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self.requests.append((path, headers))
        if path in self.documents:
            return 200, json.dumps(self.documents[path]).encode()
        private = {"/.well-known/agent-skills/index.json": self._index(), "/secret-plan/SKILL.md": SKILL}
        if path not in private:
            return 404, b"{}"
        if self.accepts(headers):
            return 200, private[path]
        error = {"code": "AUTH_REQUIRED", "message": "who are you?", "details": {"auth": self.auth}}
        return 401, json.dumps({"error": error}).encode()

    @staticmethod
    def _head() -> dict[str, Any]:
        return {
            "id": "example/secret-plan",
            "name": "Secret plan",
            "version": "1.0.0",
            "capability_type": "plugin",
            "description": "Plans in secret.",
            "access": "restricted",
        }

    @staticmethod
    def _index() -> bytes:
        entry = {
            "name": "secret-plan",
            "type": "skill-md",
            "description": "Plans in secret.",
            "url": "/secret-plan/SKILL.md",
            "digest": f"sha256:{hashlib.sha256(SKILL).hexdigest()}",
        }
        return json.dumps({"$schema": SCHEMA_URI, "skills": [entry]}).encode()


@contextlib.contextmanager
def private_origin() -> Iterator[PrivateOrigin]:
    """Serve one for the time of the context."""

    class Private(Handler):
        def do_GET(self) -> None:
            status, body = origin.answer(self.path, self.fields)
            self.send(status, body, headers={"WWW-Authenticate": origin.challenge} if status == 401 else {})

    with LoopbackServer(Private) as server:
        origin = PrivateOrigin(f"http://{server.host}")
        yield origin


def claims(token: str) -> dict[str, Any]:
    """Return what a JWT says, its signature not looked at."""
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def takes_live_tokens(headers: dict[str, str]) -> bool:
    """Take a bearer token, a JWT, that has not expired."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return scheme == "Bearer" and claims(token)["exp"] > time.time()
