"""A scene that no agent provides: a skill from the configured SkillCenter, served by a process of its own.

The SkillCenter answers a search; each row leads to a skill of its own origin, which is installed as any other. The
process serves the skill on the local network until its client is closed, or ends. Spec: SDP §4.2, §7.2.

Trust: the answer is hostile. A row with another origin is skipped, and an index gives the digest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, ValidationError
from skillwire.model.url import parse_url
from skillwire.resolver.references import parse_reference
from skillwire.resolver.resolve import resolve
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.context import ResolveContext
    from skillwire.wire.exchange import Flow

_OFFERED: Final = 16  # rows of the answer that are read
_OK: Final = 200
_END_SECONDS: Final = 10.0
#: Ends with its input, so also when its parent is killed.
_PROGRAM: Final = """
import os, signal, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
from skillwire.cli.main import main
main()
"""


def search_center(
    settings: LanSettings, scene: str, capabilities: Sequence[str], context: ResolveContext
) -> Flow[list[SkillRef]]:
    """Return the skills of the SkillCenter that have the scene and the capabilities, and can be installed.

    Raises FetchError, DecodeError, ValidationError (``REGISTRY_ANSWER``).
    """
    url = f"{settings.center_url.rstrip('/')}/api/skills/search"
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if credential := context.credential_for(url):
        headers["Authorization"] = credential
    body = json.dumps({"scenes": [scene], "capabilities": list(capabilities)}).encode()
    request = HttpRequest(url, "POST", headers, body, limits.CALL_ANSWER_BYTES, settings.center_timeout)
    response = yield from fetch(request)
    if response.status != _OK:
        message = server_message(response.body) or f"status {response.status} came"
        raise FetchError("HTTP_STATUS", message, place=SourceLocation(url))
    document = load_json(response.body, max_bytes=limits.CALL_ANSWER_BYTES, source=url)
    rows: Any = document.get("skills") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValidationError("REGISTRY_ANSWER", "the answer has no list named skills", place=SourceLocation(url))
    found: list[SkillRef] = []
    for row in rows[:_OFFERED]:
        endpoint = str(row.get("endpoint", ""))
        try:
            if parse_url(endpoint).origin != parse_url(url).origin:
                raise ValidationError("URL", f"{ascii(endpoint)[:120]} is not of the SkillCenter's origin")
            found += yield from resolve(parse_reference(endpoint), context)
        except SkillwireError as error:
            context.note(error)
    return [skill for skill in found if not skill.has_no_artifact]


class SceneProvider:
    """A process that serves the skill in ``folder`` for ``scene``. Raises FetchError (``DISC_006``) if it ends."""

    def __init__(self, folder: Path, scene: str, port: int, *, logs: bool) -> None:
        arguments = ["serve", str(folder), "--lan", "--scene", scene, "--port", str(port), "--json"]
        self._process = subprocess.Popen(  # noqa: S603  # our own program, with a folder that we have installed
            [sys.executable, "-c", _PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if logs else subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the parent, which ends this process in its turn
        )
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        line = self._process.stdout.readline()
        try:
            self.port = parse_url(str(json.loads(line)["address"])).port
        except (ValueError, KeyError, SkillwireError) as error:
            self.close()
            fix = f"Run it to see why: skillwire serve {folder} --lan --scene {scene}"
            raise FetchError("DISC_006", "the process that serves the skill has ended", fix=fix) from error

    def close(self) -> None:
        """End the process, which says goodbye to the network."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
