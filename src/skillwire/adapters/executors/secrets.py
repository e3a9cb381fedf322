r"""Secrets for skills: where their values come from, and how they stay out of everything that is shown.

A skill names the secrets that it needs in ``permissions.secrets``, and a grant shows these names. Their values come
from the operator's file, or else from the server's environment. They travel through a pipe into the skill's
environment, never over a command line, and are removed from everything shown of what the skill printed or raised.
:class:`SecretMask` removes them also where a program escaped them: an API that echoes its header fields as JSON writes
``\/`` or ``\u002f`` for a slash.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from skillwire import limits
from skillwire.errors import SkillwireError, SourceLocation, StorageError
from skillwire.folder.fields import check_secret
from skillwire.trust.guarded_toml import load_toml

_OWN_SECRETS: Final = "SKILLWIRE_"  # skills never get the settings and tokens of skillwire itself
_FOR_OTHERS: Final = 0o077
_HIDDEN: Final = "[secret]"


class Secrets:
    """The secrets of this server: its environment, and a file whose names win.

    The file is TOML (``*.toml``) or lines of ``NAME=value``, and read for each skill, so a secret can change.
    """

    def __init__(self, environment: Mapping[str, str], file: Path | None = None) -> None:
        self._environment = environment
        self._file = file

    def find(self, names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Return the values of ``names``, and those that have none. Raises StorageError (``SECRETS_FILE``)."""
        wanted = [name for name in dict.fromkeys(names) if not name.startswith(_OWN_SECRETS)]
        refused = [name for name in dict.fromkeys(names) if name.startswith(_OWN_SECRETS)]
        if not wanted:
            return {}, refused
        known = {**self._environment, **self.load()}
        found = {name: known[name] for name in wanted if known.get(name)}
        return found, refused + [name for name in wanted if name not in found]

    def value(self, name: str) -> str | None:
        """Return the value of one secret, None when it is not set. Raises StorageError (``SECRETS_FILE``)."""
        return self.find([name])[0].get(name)

    def load(self) -> dict[str, str]:
        """Return the file's secrets. Raises StorageError (``SECRETS_FILE``), which never contains file content."""
        if self._file is None:
            return {}
        data = self._read(self._file)
        try:
            rows = _read_rows(data, is_toml=self._file.suffix == ".toml")
        except (ValueError, SkillwireError):
            raise self._unusable("it is neither TOML of names and texts nor lines of NAME=value") from None
        for name, value in rows.items():
            try:
                check_secret(name)
            except SkillwireError:  # what stands there may be a part of a secret
                raise self._unusable("a name in it is none that a secret may have, such as EXAMPLE_API_KEY") from None
            if len(value.encode()) > limits.SECRET_BYTES or "\0" in value:
                raise self._unusable(f"{name} has more than {limits.SECRET_BYTES} bytes, or a NUL in it")
        return rows

    def _read(self, file: Path) -> bytes:
        try:
            with file.open("rb") as stream:
                found = os.fstat(stream.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_mode & _FOR_OTHERS:
                    fix = f"Take that away: chmod 600 {file}"
                    raise self._unusable(f"others may read or change it (mode {found.st_mode & 0o777:04o})", fix)
                data = stream.read(limits.SECRETS_FILE_BYTES + 1)
        except FileNotFoundError as error:
            fix = "Write it with lines like NAME=value and chmod 600, or correct secrets_file in the configuration."
            raise self._unusable("there is no such file", fix) from error
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        if len(data) > limits.SECRETS_FILE_BYTES:
            raise self._unusable(f"it has more than {limits.SECRETS_FILE_BYTES} bytes")
        return data

    def _unusable(self, why: str, fix: str | None = None) -> StorageError:
        return StorageError("SECRETS_FILE", why, place=SourceLocation(str(self._file)), fix=fix)


#: An escaped character: of JSON, a string literal, a URL or HTML, escaped any number of times.
_ESCAPED: Final = re.compile(
    r"\\+(?:u([0-9a-f]{4})|x([0-9a-f]{2}))?|%(?:25)*([0-9a-f]{2})"
    r"|&(?:amp;)*((?:#[0-9]{1,7}|#x[0-9a-f]{1,6});?|[a-z]{2,17};|(?:quot|amp|lt|gt)(?!;))",
    re.IGNORECASE,
)
_ESCAPED_LENGTH: Final = len("&DiacriticalGrave;")
#: A shorter piece of base64 is found in what is none.
_ENCODED_LENGTH: Final = 8
_BASE64: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


class SecretMask:
    """Replaces secrets with ``[secret]``, also as JSON, HTML, a part of a URL, or within base64."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(filter(None, secrets))
        self._forms = tuple({form for secret in self._secrets for form in _forms(secret)})
        self._encoded = tuple({core for secret in self._secrets for core in _encoded(secret)})
        self._shortest = min(map(len, (*self._forms, *self._encoded)), default=0)

    @property
    def longest(self) -> int:
        """How many characters an escaped secret has at most; a cut text may begin or end within one."""
        return _ESCAPED_LENGTH * max(map(len, self._secrets), default=0)

    def text(self, text: str) -> str:
        """Return ``text`` without secrets; one that is too short for any costs no search."""
        if len(text) < self._shortest:
            return text
        text = _replaced(text, self._spans(text))
        plain = _ESCAPED.sub(_unescape, text)
        spans = [] if plain == text else self._spans(plain)
        if not spans:
            return text
        at, here = [0], [0]  # where a piece begins in ``plain``, and in ``text``
        for found in _ESCAPED.finditer(text):
            begin = at[-1] + found.start() - here[-1]
            at += begin, begin + len(_unescape(found))
            here += found.span()

        def place(index: int) -> int:
            piece = bisect_right(at, index) - 1
            return here[piece] + index - at[piece]

        return _replaced(text, [(place(begin), place(end)) for begin, end in spans])

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets stand; base64 is hidden whole, with what was encoded beside the secret."""
        spans = []
        for form in self._forms:
            begin = text.find(form)
            while begin >= 0:
                spans.append((begin, begin + len(form)))
                begin = text.find(form, begin + len(form))
        for core in self._encoded:
            begin, end = text.find(core), 0
            while begin >= 0:
                while begin > end and text[begin - 1] in _BASE64:
                    begin -= 1
                while (end := max(end, begin) + 1) < len(text) and text[end] in _BASE64:
                    pass
                spans.append((begin, end))
                begin = text.find(core, end)
        return sorted(spans)

    def value(self, value: Any) -> Any:
        """Return a decoded JSON value without secrets."""
        if not self._secrets:
            return value
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, int | float):
            return _HIDDEN if self.text(text := str(value)) != text else value
        return self.text(value) if isinstance(value, str) else value

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets; they may be a text whose type or charset does not show it."""
        for secret in self._secrets:
            for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
                data = data.replace(secret.encode(encoding), _HIDDEN.encode())
        return self.text(data.decode("latin-1")).encode("latin-1")


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    """Return ``text`` with spans, which are sorted and may overlap, replaced."""
    pieces: list[str] = []
    end = 0
    for begin, stop in spans:
        if begin >= end:
            pieces += text[end:begin], _HIDDEN
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


def _unescape(found: re.Match[str]) -> str:
    """Return the character that an escape means, of an unknown one its text; and nothing for any backslash."""
    code = found[1] or found[2] or found[3]
    text = chr(int(code, 16)) if code else html.unescape(f"&{found[4]}") if found[4] else ""
    return text.replace("\\", "")


def _forms(secret: str) -> set[str]:
    """Return the spellings of ``secret`` that are looked for as they are."""
    spelled = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe="")}
    plain = {secret.replace("\\", ""), *(_ESCAPED.sub(_unescape, form) for form in spelled)}
    return spelled | {form for form in plain if 2 * len(form) > len(secret)}  # a few characters are found anywhere


def _encoded(secret: str) -> set[str]:
    """Return what base64 makes of ``secret`` wherever it stands, without the characters that its neighbours change."""
    cores = set()
    for data in (secret.encode(errors="surrogatepass"), secret.encode("utf-16-le", "surrogatepass")):
        for before in range(3):
            core = base64.b64encode(bytes(before) + data)[-(-before * 4 // 3) : (before + len(data)) * 4 // 3].decode()
            cores |= {core, core.translate({ord("+"): "-", ord("/"): "_"})}
    return {core for core in cores if len(core) >= _ENCODED_LENGTH}


def _read_rows(data: bytes, *, is_toml: bool) -> dict[str, str]:
    if is_toml:
        document = load_toml(data)
        if not all(isinstance(value, str) for value in document.values()):
            raise ValueError("not a text")
        return {str(name): str(value) for name, value in document.items()}
    rows: dict[str, str] = {}
    for line in data.decode().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ValueError("no name")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        rows[name.strip()] = value[1:-1] if quoted else value
    return rows
