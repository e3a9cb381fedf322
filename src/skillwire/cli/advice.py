"""What this place adds to the fix of an error: what is set in the environment, in the project, or in the lock.

The core knows none of these when it fails. Only an error imports this module, and what it reads says the same as
before: a file that cannot be read adds no advice, since the error at hand is the one to tell.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.errors import Diagnostics

_NETWORK: Final = {"HOST_NOT_FOUND", "CONNECT_FAILED", "CONNECTION_LOST", "TIMEOUT", "TLS_FAILED"}
_ADDRESS: Final = {"ADDRESS_REFUSED", "PORT_REFUSED", "PLAIN_HTTP_REFUSED"}
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def advised(error: SkillwireError, arguments: Sequence[str]) -> Diagnostics:
    """Return what is to be told of ``error``, which ``arguments`` led to, with the fix that fits this place."""
    told = error.diagnostics()
    try:
        fix = _fix(error, arguments)
    except SkillwireError:
        fix = None  # another file is broken, too; what went wrong first is told
    return told if fix is None else told._replace(fix=fix)


def _fix(error: SkillwireError, arguments: Sequence[str]) -> str | None:
    if error.code in _NETWORK:
        return _without_proxy(error)
    if error.code in _ADDRESS:
        return _of_project(str(error.details.get("host", "")))
    return _installed(arguments) if error.code == "NO_SOURCES" else None


def _without_proxy(error: SkillwireError) -> str | None:
    proxy = next((name for name in _PROXIES if os.environ.get(name)), None)
    if proxy is None:
        return None
    fix = error.diagnostics().fix
    return f"{fix} {proxy} is set and not used: skillwire connects directly (docs/topics/address-policy.md, Proxies)."


def _of_project(host: str) -> str | None:
    from skillwire.adapters.files.settings_file import load_settings, user_file  # noqa: PLC0415  # others do without
    from skillwire.model.url import parse_url  # noqa: PLC0415  # same
    from skillwire.resolver.reference import source_location  # noqa: PLC0415  # same

    settings = load_settings(Path.cwd(), os.environ)
    foreign = [source for source in settings.sources if source not in settings.own_sources]
    if host not in {parse_url(source_location(source).url).host for source in foreign}:
        return None
    return (
        "The project's skillwire.toml names it, and that may name public addresses only, since a stranger may have "
        f"written it. If you trust it, put it into sources in your own {user_file()}, or into SKILLWIRE_ALLOW."
    )


def _installed(arguments: Sequence[str]) -> str | None:
    from skillwire.client.synchronous import Client  # noqa: PLC0415  # others do without

    for locked in Client().installed():
        if locked.name in arguments and locked.index:
            return f"{locked.name} is installed here from {locked.origin}; write {locked.origin}/{locked.name}."
    return None
