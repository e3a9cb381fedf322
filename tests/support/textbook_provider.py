"""A provider of Skill Sharing that knows the text and nothing else: written by hand from SSP 10, 5.2 and 8.2.

No field, header and status that the text does not have: no Location, no ETag, no Retry-After, no Prefer, no keys.
``statuses`` are what its status endpoint answers, one after the other, the last one from then on.
"""

import json
from typing import Any

from tests.support.loopback_server import Handler, LoopbackServer

EXECUTION = "exec-f5e4d3c2"
SUMMARY = "The Skill Sharing Protocol enables decentralized skill discovery and invocation across the internet."
AT, LATER = "2025-07-01T12:00:00Z", "2025-07-01T12:00:02Z"
REFUSED = {
    "error": {
        "code": "AUTH_REQUIRED",
        "message": "Authentication is required to invoke this skill",
        "details": {"required_auth_type": "api_key", "header": "X-API-Key"},
        "retry": {"suggested_delay_ms": 0, "max_attempts": 1},
    }
}


def told(status: str, **more: Any) -> dict[str, Any]:
    """Return an InvocationResponse with the members in the order of the text."""
    stamps = {"created_at": AT, "updated_at": LATER if more else AT} | ({"completed_at": LATER} if more else {})
    return {"execution_id": EXECUTION, "status": status, "skill_id": "example/text-summarizer", **more} | {
        "timestamps": stamps
    }


COMPLETED = told("completed", output={"summary": SUMMARY})


class TextbookProvider(LoopbackServer):
    """Serves while the context lasts. ``requests`` are method, path, headers and body of all that came, in order."""

    def __init__(
        self, *statuses: dict[str, Any], key: str | None = None, result: Any = None, answer: int = 202
    ) -> None:
        self.statuses = list(statuses) or [told("accepted"), told("running"), COMPLETED]
        self.key, self.result, self.answer = key, result, answer
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        super().__init__(_Handler, provider=self)

    @property
    def asked(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.requests]

    def index(self) -> dict[str, Any]:
        """Return the index of SSP 10.1, step 1, at this host."""
        return {
            "protocol": {"version": "1.0.0"},
            "provider": {"name": "Example Skills Provider", "url": f"http://{self.host}"},
            "skills": [
                {
                    "id": "example/text-summarizer",
                    "name": "Text Summarizer",
                    "capability_type": "api",
                    "description": "Summarizes long text into concise paragraphs.",
                    "descriptor_url": f"http://{self.host}/skills/text-summarizer.json",
                    "access": "public",
                    "version": "1.2.0",
                }
            ],
        }

    def descriptor(self) -> dict[str, Any]:
        """Return a descriptor of the structure of SSP 3.6 for it."""
        api = f"http://{self.host}/api/v1"
        results = {"result_url": f"{api}/result/{{execution_id}}"} if self.result is not None else {}
        return {
            "protocol": {"version": "1.0.0", "changelog_url": "https://example.com/changelog"},
            "id": "example/text-summarizer",
            "name": "Text Summarizer",
            "version": "1.2.0",
            "capability_type": "api",
            "description": "Summarizes long text into concise paragraphs.",
            "provider": {"name": "Example Skills Provider", "contact": "api-support@example.com"},
            "endpoint": {
                "url": f"{api}/summarize",
                "method": "POST",
                "content_type": "application/json",
                "status_url": f"{api}/status/{{execution_id}}",
                **results,
                "timeout_ms": 30000,
                "retry": {"max_attempts": 3, "backoff_ms": 1000},
            },
            "inputs": [
                {"name": "text", "type": "string", "description": "What to summarize.", "required": True},
                {"name": "max_length", "type": "number", "description": "Words.", "required": False, "default": 200},
            ],
            "output": {"content_type": "application/json", "description": "The summary."},
            "auth": {"type": "api_key", "header": "X-API-Key"} if self.key else {"type": "none"},
            "access": "public",
            "tags": ["text"],
        }


class _Handler(Handler):
    protocol_version = "HTTP/1.0"
    provider: TextbookProvider

    def do_GET(self) -> None:
        self._note(None)
        provider = self.provider
        if self.path == "/.well-known/skill-sharing":
            self.send(200, provider.index())
        elif self.path == "/skills/text-summarizer.json":
            self.send(200, provider.descriptor())
        elif self.path == f"/api/v1/status/{EXECUTION}":
            now = provider.statuses[0]
            del provider.statuses[: len(provider.statuses) > 1]
            self.send(200, now)
        elif self.path == f"/api/v1/result/{EXECUTION}" and provider.result is not None:
            self.send(200, provider.result)
        else:
            self.send(404, {"error": {"code": "SKILL_NOT_FOUND", "message": "There is nothing."}})

    def do_POST(self) -> None:
        self._note(json.loads(self.body()))
        if self.path != "/api/v1/summarize":
            self.send(404, {"error": {"code": "SKILL_NOT_FOUND", "message": "There is nothing."}})
        elif self.provider.key and self.headers["X-API-Key"] != self.provider.key:
            self.send(401, REFUSED)
        else:
            self.send(self.provider.answer, told("accepted"))

    def _note(self, body: Any) -> None:
        self.provider.requests.append((self.command, self.path, self.fields, body))
