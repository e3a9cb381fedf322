"""One rule for the relative path of a skill's file, from any source.

:func:`check_path` judges all paths (archives, indexes, the command line, requests, lock files, folders), so everything
published can be installed, and nothing installed means something else on another system. A path is returned unchanged
or refused, never repaired. An accepted path names one file below the skill's folder on Linux, macOS and Windows. Paths
with equal :func:`collision_key` are one file on some file system. Version control's folders are refused because tools
run the hooks in them. Spec: ASD Archive Safety; specs §1 for the stricter ASCII rules of the 0.1.0 index.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.model.skill import DEVICE_NAMES
from skillwire.trust.hidden_text import find_hidden

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_WINDOWS_SEPARATOR: Final = re.compile(r"[\\:]")
#: Escapes that a server or tool which decodes once more turns into a separator, a dot, a NUL or an escape.
_DISGUISE: Final = re.compile(r"%(?:2[ef5]|5c|00)", re.IGNORECASE)
_SHORT_NAME: Final = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?")
_DEVICES: Final = DEVICE_NAMES | {"conin$", "conout$", "clock$"}
#: The folders of version control, in lower case.
VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn", ".bzr"})
#: Marks that real names may carry and that some file systems, or eyes, pass over.
_OVERLOOKED: Final = dict.fromkeys((0x200B, 0x200C, 0x200D, 0xFE0E, 0xFE0F))
_SHOWN: Final = 80


def check_path(path: str | bytes) -> str:
    """Return ``path``, bytes in UTF-8 or text, as text if it safely names one file of a skill.

    Raises TrustError (a ``PATH_...`` code). Trust: hostile; linear time, and the length is bounded first.
    """
    text = _decode(path)
    if _CONTROL.search(text) or (not text.isascii() and find_hidden(text)):
        raise TrustError("PATH_INVALID", f"a path holds characters that cannot be seen: {show(text)}")
    if _WINDOWS_SEPARATOR.search(text):
        raise TrustError("PATH_WINDOWS", f"a path holds a backslash or a colon: {show(text)}")
    if text.startswith("/"):
        raise TrustError("PATH_ABSOLUTE", f"a path is absolute: {show(text)}")
    components = text.split("/")
    if ".." in components:
        raise TrustError("PATH_TRAVERSAL", f"a path holds '..': {show(text)}")
    if "%" in text and _DISGUISE.search(text):
        raise TrustError("PATH_TRAVERSAL", f"a path would be another one once decoded: {show(text)}")
    if not text.isascii():
        compatible = unicodedata.normalize("NFKC", text).replace("\\", "/").split("/")
        if ".." in compatible:
            raise TrustError("PATH_TRAVERSAL", f"a path holds look-alikes of '..': {show(text)}")
    if len(components) > limits.ARCHIVE_DEPTH:
        raise TrustError("PATH_TOO_DEEP", f"a path is {len(components)} levels deep: {show(text)}")
    for component in components:
        _check_component(component, text)
    return text


def collision_key(path: str) -> str:
    """Return a key that is equal for paths that some file system, or reader, treats as one.

    It ignores case, composition of letters, ``ß`` versus ``ss``, and invisible marks.
    """
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFD", path).casefold().translate(_OVERLOOKED)
    return unicodedata.normalize("NFC", folded)


def show(path: str | bytes) -> str:
    """Return a hostile path escaped and shortened for a message."""
    start = path[:_SHOWN]
    text = start.decode(errors="backslashreplace") if isinstance(start, bytes) else start
    return repr(text) + ("..." if len(path) > _SHOWN else "")


def _decode(path: str | bytes) -> str:
    if not path:
        raise TrustError("PATH_INVALID", "a path is empty")
    # A character is at least a byte, so that this bounds text as well, before anything is encoded.
    if len(path) > limits.ARCHIVE_PATH_BYTES:
        raise TrustError("PATH_TOO_LONG", f"a path is longer than {limits.ARCHIVE_PATH_BYTES} bytes: {show(path)}")
    try:
        text, raw = (path.decode(), path) if isinstance(path, bytes) else (path, path.encode())
    except UnicodeError as error:
        raise TrustError("PATH_INVALID", f"a path is not UTF-8: {show(path)}") from error
    if len(raw) > limits.ARCHIVE_PATH_BYTES:
        raise TrustError("PATH_TOO_LONG", f"a path is longer than {limits.ARCHIVE_PATH_BYTES} bytes: {show(path)}")
    return text


def _check_component(component: str, text: str) -> None:
    if component in {"", "."}:
        raise TrustError("PATH_INVALID", f"a path holds an empty component or '.': {show(text)}")
    if len(component.encode()) > limits.ARCHIVE_COMPONENT_BYTES:
        raise TrustError("PATH_TOO_LONG", f"a name is longer than {limits.ARCHIVE_COMPONENT_BYTES} bytes: {show(text)}")
    if component[-1] in ". ":
        raise TrustError("PATH_WINDOWS", f"a name ends in a dot or a space: {show(text)}")
    if "~" in component and _SHORT_NAME.fullmatch(component):
        raise TrustError("PATH_WINDOWS", f"a name has the form of an 8.3 short name: {show(text)}")
    # Windows takes superscript digits for digits (COM¹), and a device for itself whatever its extension.
    folded = component.lower() if component.isascii() else unicodedata.normalize("NFKC", component).casefold()
    if folded.split(".", 1)[0].rstrip() in _DEVICES:
        raise TrustError("PATH_WINDOWS", f"a name is that of a Windows device: {show(text)}")
    if folded in VERSION_CONTROL:
        raise TrustError("PATH_FORBIDDEN", f"a path leads into metadata of version control: {show(text)}")
