"""Reading a table of ``skill.toml`` field by field, and the rules for ``[runtime]`` and ``[permissions]``.

A :class:`Fields` records which keys were read, so the others can be reported as unknown, and collects one error for
each broken rule; nothing is raised before everything is read.

A person grants permissions after reading them, so each pattern must mean what it seems to mean. A network pattern names
https origins of one owner: ``https://*.example.com`` has one owner, ``https://*.com`` and ``https://*.github.io`` have
many. A secret is an environment variable that configures no interpreter, loader or tool. Spec: SKP
``[permissions]``; the rules are ours (specs §4 has the fields only).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from skillwire.errors import SourceLocation, TrustError, ValidationError
from skillwire.model.skill import is_sharing_id, is_version
from skillwire.trust.address import is_local_name
from skillwire.trust.guarded_toml import toml_place
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path

_LABEL: Final = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
NETWORK: Final = re.compile(
    rf"https://(\*\.)?({_LABEL}(?:\.{_LABEL})*\.[a-z][a-z0-9-]*[a-z0-9])(?::([1-9][0-9]{{0,4}}))?"
)
_HOST: Final = re.compile(r"https?://([A-Za-z0-9.-]+)(?=[:/]|$)")
_HIGHEST_PORT: Final = 65535
#: Second-level names under which a country registers all owners: co.uk, com.br, ac.jp.
_REGISTRY_LABELS: Final = frozenset(
    {"ac", "co", "com", "edu", "gen", "go", "gob", "gouv", "gov", "info", "mil", "ne", "net", "nom", "or", "org", "sch"}
)
_COUNTRY_LENGTH: Final = 2
#: Domains with names of many owners: a wildcard below these trusts all of them.
_SHARED: Final = (
    "amazonaws.com", "appspot.com", "azureedge.net", "azurewebsites.net", "blogspot.com", "cloudfront.net",
    "firebaseapp.com", "fly.dev", "github.io", "gitlab.io", "googleusercontent.com", "herokuapp.com", "netlify.app",
    "ngrok.io", "ngrok-free.app", "onrender.com", "pages.dev", "r2.dev", "run.app", "trycloudflare.com", "vercel.app",
    "web.app", "windows.net", "workers.dev",
)  # fmt: skip
SECRET: Final = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
#: Variables that give orders to loaders, interpreters, shells and network libraries.
ORDERS: Final = re.compile(
    r"(?:LD|DYLD|BASH|SSL|XDG|LC|JAVA|_JAVA|JDK|GLIBC|MALLOC|NPM_CONFIG|PIP|UV)_.*"
    r"|PYTHON.*|PERL5.*|PERLLIB|RUBY(?:LIB|OPT|PATH|SHELL)|GIT_(?!TOKEN$|PASSWORD$).*"
    r"|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|CLASSPATH"
    r"|PATH|HOME|USER|LOGNAME|SHELL|ENV|IFS|CDPATH|PS[0-4]|PROMPT_COMMAND|TMPDIR|TEMP|TMP|TERM|LANG|EDITOR|VISUAL|PAGER"
    r"|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|SSH_AUTH_SOCK|SSH_ASKPASS|CURL_HOME|WGETRC"
    r"|(?:HTTPS?|FTP|ALL|NO)_PROXY|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
EXPORT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SHOWN: Final = 80


def check_entrypoint(entrypoint: str) -> str:
    """Return ``entrypoint`` if it names a Python file inside the folder. Raises ValidationError (``ENTRYPOINT``)."""
    try:
        check_path(entrypoint)
    except TrustError as error:
        raise ValidationError("ENTRYPOINT", f"entrypoint: {error.message}") from error
    if not entrypoint.endswith(".py") or entrypoint.startswith("-"):
        raise ValidationError("ENTRYPOINT", f"entrypoint {_show(entrypoint)} is not a Python file of the folder")
    return entrypoint


def check_export(export: str) -> str:
    """Return ``export`` if it is a plain function name. Raises ValidationError (``EXPORT``)."""
    if not EXPORT.fullmatch(export) or keyword.iskeyword(export):
        raise ValidationError("EXPORT", f"export {_show(export)} is not the name of a function")
    return export


def check_network(pattern: str) -> str:
    """Return ``pattern`` if it names https origins of one owner. Raises ValidationError (``PERMISSION_NETWORK``)."""
    found = NETWORK.fullmatch(pattern)
    if found is None:
        url = _HOST.match(pattern)
        if url and is_local_name(url[1].lower()):
            raise _network_error(pattern, ": local names are not allowed, only hosts of the public network")
        raise _network_error(pattern, " is not https://host or https://*.host, in lower case, without a path")
    wildcard, host, port = found.groups()
    if is_local_name(host) or host.endswith(".arpa"):
        raise _network_error(pattern, " leads into this machine or network: local names are not allowed")
    if port and int(port) > _HIGHEST_PORT:
        raise _network_error(pattern, " has a port that does not exist")
    if wildcard and _is_shared(host):
        raise _network_error(pattern, " covers the hosts of many owners")
    return pattern


def _network_error(pattern: str, why: str) -> ValidationError:
    return ValidationError("PERMISSION_NETWORK", f"network {_show(pattern)}{why}")


def check_secret(name: str) -> str:
    """Return ``name`` if it only carries a secret. Raises ValidationError (``PERMISSION_SECRET``)."""
    if not SECRET.fullmatch(name):
        raise ValidationError("PERMISSION_SECRET", f"secret {_show(name)} is not a name like EXAMPLE_API_KEY")
    if ORDERS.fullmatch(name):
        raise ValidationError("PERMISSION_SECRET", f"secret {name} would change how programs run")
    return name


def _is_shared(host: str) -> bool:
    """Whether a wildcard below ``host`` covers several owners, as far as a short list shows."""
    labels = host.split(".")
    if len(labels) == 1 or any(host == shared or host.endswith("." + shared) for shared in _SHARED):
        return True
    return len(labels) == 2 and len(labels[1]) == _COUNTRY_LENGTH and labels[0] in _REGISTRY_LABELS  # noqa: PLR2004  # "co.uk": two labels


def _show(text: str) -> str:
    return repr(neutralise(text[:_SHOWN]))


T = TypeVar("T")

DOTTED: Final = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)*")
IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
TEXT_LENGTH: Final = 256
MATCHED_LENGTH: Final = 128


class Fields:
    """One table of a document, and the errors found in it and in its subtables."""

    def __init__(self, values: Mapping[str, Any], text: str, source: str) -> None:
        self.values = values
        self.path: tuple[str, ...] = ()
        self.flaws: list[ValidationError] = []
        self._text = text
        self._source = source
        self._asked: set[str] = set()
        self._below: list[Fields] = []

    def __bool__(self) -> bool:
        return bool(self.values)

    def table(self, key: str) -> Fields:
        """Return the table at ``key``; an empty one when it is absent or not a table."""
        value = self._take(key, dict, "a table")
        table = Fields(value or {}, self._text, self._source)
        table.path = (*self.path, key)
        table.flaws = self.flaws
        self._below.append(table)
        return table

    def tables(self) -> Iterator[tuple[str, Fields]]:
        """Yield every key with its table, for a table with free keys."""
        for key in self.values:
            yield key, self.table(key)

    def text(self, key: str, *, most: int = TEXT_LENGTH) -> str | None:
        """Return the text at ``key``, of 1 to ``most`` characters."""
        value = self._fitting(key, lambda text: text.strip() and len(text) <= most, f"a text of 1 to {most} characters")
        return value and value.strip()

    def choice(self, key: str, allowed: Collection[str]) -> str | None:
        """Return the text at ``key`` when it is one of ``allowed``."""
        return self._fitting(key, lambda text: text in allowed, f"one of {', '.join(allowed)}")

    def flag(self, key: str) -> bool:
        """Return whether the value at ``key`` is true."""
        return bool(self._take(key, bool, "true or false"))

    def value(self, key: str) -> object:
        """Return the value at ``key``, or None."""
        return self._take(key, object, "a value")

    def number(self, key: str, *, least: int = 1, most: int) -> int | None:
        """Return the whole number at ``key``, from ``least`` to ``most``."""
        value: int | None = self._take(key, int, "a whole number")
        if value is not None and (isinstance(value, bool) or not least <= value <= most):
            self._refuse(f"{key} is a whole number from {least} to {most}", key)
            return None
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts at ``key``, in order."""
        return self._list(key, lambda item: 0 < len(item) <= TEXT_LENGTH, "a list of texts")

    def identifiers(self, key: str) -> tuple[str, ...]:
        """Return the list of identifiers at ``key``. Spec: specs §3, reserved characters."""
        return self._list(key, IDENTIFIER.fullmatch, "a list of identifiers, each of A-Z a-z 0-9 . _ -")

    def identifier(self, key: str) -> str | None:
        """Return the identifier at ``key``. Spec: specs §3, reserved characters."""
        return self._matching(key, IDENTIFIER, "an identifier of A-Z a-z 0-9 . _ -")

    def dotted(self, key: str) -> str | None:
        """Return the dotted name at ``key``: lower-case letters, digits, dots. Spec: specs §4."""
        return self._matching(key, DOTTED, "lower-case letters, digits and dots, such as example.leads.sync")

    def sharing_id(self, key: str) -> str | None:
        """Return the SSP id at ``key``. Spec: specs §0."""
        return self._fitting(key, is_sharing_id, "provider/skill, or com.example.skill-v1")

    def version(self, key: str) -> str | None:
        """Return the SemVer version at ``key``."""
        return self._fitting(key, is_version, "a version such as 1.0.0 (Semantic Versioning)")

    def checked(self, key: str, check: Callable[[str], str]) -> str | None:
        """Return the text at ``key`` when ``check`` does not refuse it."""
        value: str | None = self._take(key, str, "text")
        return None if value is None else self._check(check, value, key)

    def checked_texts(self, key: str, check: Callable[[str], str]) -> tuple[str, ...]:
        """Return those texts of the list at ``key`` that ``check`` does not refuse."""
        items = self._list(key, lambda _: True, "a list of texts")
        return tuple(item for item in items if self._check(check, item, key) is not None)

    def keep(self) -> Mapping[str, Any] | None:
        """Return the table as read, every key in it known; None when it is empty."""
        self._asked.update(self.values)
        return self.values or None

    def refuse(self, code: str, message: str, key: str, *, fix: str | None = None) -> None:
        """Add an error about the value at ``key``; ``fix`` replaces the code's general advice."""
        self.flaws.append(ValidationError(code, message, place=self.place(key), fix=fix))

    def place(self, key: str) -> SourceLocation:
        """Return the location of ``key`` in the document."""
        return toml_place(self._text, (*self.path, key), self._source)

    def unknown(self) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
        """Yield the path of every key that was not read, here and in the subtables, and the keys known beside it."""
        known = frozenset(self._asked)
        yield from (((*self.path, key), known) for key in self.values if key not in known)
        for table in self._below:
            yield from table.unknown()

    def _take(self, key: str, kind: type[T], form: str) -> T | None:
        self._asked.add(key)
        value = self.values.get(key)
        if value is None or isinstance(value, kind):
            return value
        self._refuse(f"{key} is {form}", key)
        return None

    def _matching(self, key: str, form: re.Pattern[str], description: str) -> str | None:
        return self._fitting(key, lambda text: len(text) <= MATCHED_LENGTH and form.fullmatch(text), description)

    def _fitting(self, key: str, fits: Callable[[str], object], description: str) -> str | None:
        value: str | None = self._take(key, str, "text")
        if value is not None and not fits(value):
            self._refuse(f"{key} is {description}, not {_show(value)}", key)
            return None
        return value

    def _list(self, key: str, fits: Callable[[str], object], form: str) -> tuple[str, ...]:
        value: list[Any] | None = self._take(key, list, form)
        if value is None:
            return ()
        if not all(isinstance(item, str) and fits(item) for item in value):
            self._refuse(f"{key} is {form}", key)
            return ()
        return tuple(value)

    def _check(self, check: Callable[[str], str], value: str, key: str) -> str | None:
        try:
            return check(value)
        except ValidationError as error:
            self.refuse(error.code, error.message, key, fix=error.fix)
            return None

    def _refuse(self, message: str, key: str) -> None:
        self.refuse("FIELD", message, key)
