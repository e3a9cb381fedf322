"""Repositories of this machine, read by ``git upload-pack``: the other end of the protocol that servers speak.

Trust: a repository's own configuration is hostile. No configuration of the user or the system is read, so the only
hook that upload-pack has cannot be set; no transport is allowed, so nothing is fetched from a promisor; no replaced
objects are followed. A path is never an option.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from typing import Final

from skillwire import limits
from skillwire.errors import NotFoundError, SourceLocation, StorageError, TrustError, in_seconds

_VARIABLES: Final = {
    "GIT_PROTOCOL": "version=2",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": os.devnull,
    "LC_ALL": "C",
}
_SETTINGS: Final = ("uploadpack.allowFilter=true", "core.hooksPath=/dev/null", "core.fsmonitor=false")


def upload_pack(path: str, request: bytes, max_bytes: int) -> bytes:
    """Return the answer of the repository at ``path``; at most ``max_bytes``.

    Raises:
        StorageError: ``GIT_PROGRAM``, git is missing or takes too long.
        NotFoundError: ``GIT_REPOSITORY``.
        TrustError: ``GIT_SIZE``.
    """
    place = SourceLocation(path)
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = ["git", *settings, "upload-pack", "--strict", "--stateless-rpc", "--", path]
    variables = {"PATH": os.environ.get("PATH", os.defpath), **_VARIABLES}
    with tempfile.TemporaryFile() as question:
        question.write(request)
        question.seek(0)
        pipes = {"stdin": question, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            process = subprocess.Popen(command, env=variables, **pipes)  # type: ignore[call-overload]  # noqa: S603  # a path behind --
        except FileNotFoundError as error:
            raise StorageError("GIT_PROGRAM", "the program git is not installed", place=place) from error
        with process:
            timer = threading.Timer(limits.GIT_SECONDS, process.kill)
            timer.start()
            answer: bytes = process.stdout.read(max_bytes + 1)
            process.kill() if len(answer) > max_bytes else process.wait()
            timer.cancel()
    if len(answer) > max_bytes:
        raise TrustError("GIT_SIZE", f"the answer has over {max_bytes} bytes", place=place)
    if process.returncode < 0:
        raise StorageError("GIT_PROGRAM", f"git takes longer than {in_seconds(limits.GIT_SECONDS)}", place=place)
    if process.returncode and b"ERR " not in answer[:8]:
        fix = "Check the path; in a file: address // ends the repository, as in file:///srv/skills//release-notes."
        raise NotFoundError("GIT_REPOSITORY", "git cannot read the repository", place=place, fix=fix)
    return answer
