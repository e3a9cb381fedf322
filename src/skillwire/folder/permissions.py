"""What a skill may ask for in ``[runtime]`` and ``[permissions]``: which file runs, which hosts, which secrets.

A grant is read by a person who says yes to it, so each pattern must mean what it seems to mean. A network
pattern names https origins of one owner: ``https://*.example.com`` is one owner, ``https://*.com`` and
``https://*.github.io`` are everybody. A secret is the name of one environment variable that no interpreter,
loader or tool takes orders from.

Spec: SKP ``[permissions]``; the rules are ours (specs §4 has the fields only).
"""

from __future__ import annotations

import keyword
import re
from typing import Final

from skillwire.errors import TrustError, ValidationError
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path

_LABEL: Final = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
_NETWORK: Final = re.compile(
    rf"https://(\*\.)?({_LABEL}(?:\.{_LABEL})*\.[a-z][a-z0-9-]*[a-z0-9])(?::([1-9][0-9]{{0,4}}))?"
)
_HOST: Final = re.compile(r"https?://([A-Za-z0-9.-]+)(?=[:/]|$)")
_HIGHEST_PORT: Final = 65535
#: Names that belong to this machine or this network.
_LOCAL: Final = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "localdomain", "arpa")
#: Second-level names under which a country registers everybody: co.uk, com.br, ac.jp.
_REGISTRY_LABELS: Final = frozenset(
    {"ac", "co", "com", "edu", "gen", "go", "gob", "gouv", "gov", "info", "mil", "ne", "net", "nom", "or", "org", "sch"}
)
_COUNTRY_LENGTH: Final = 2
#: Where anyone may have a name: a wildcard below these trusts everybody.
_SHARED: Final = (
    "amazonaws.com", "appspot.com", "azureedge.net", "azurewebsites.net", "blogspot.com", "cloudfront.net",
    "firebaseapp.com", "fly.dev", "github.io", "gitlab.io", "googleusercontent.com", "herokuapp.com", "netlify.app",
    "ngrok.io", "ngrok-free.app", "onrender.com", "pages.dev", "r2.dev", "run.app", "trycloudflare.com", "vercel.app",
    "web.app", "windows.net", "workers.dev",
)  # fmt: skip
_SECRET: Final = re.compile(r"[A-Z][A-Z0-9_]{0,127}")
#: Variables that give orders to loaders, interpreters, shells and network libraries.
_ORDERS: Final = re.compile(
    r"(?:LD|DYLD|BASH|SSL|XDG|LC|JAVA|_JAVA|JDK|GLIBC|MALLOC|NPM_CONFIG|PIP|UV)_.*"
    r"|PYTHON.*|PERL5.*|PERLLIB|RUBY(?:LIB|OPT|PATH|SHELL)|GIT_(?!TOKEN$|PASSWORD$).*"
    r"|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|CLASSPATH"
    r"|PATH|HOME|USER|LOGNAME|SHELL|ENV|IFS|CDPATH|PS[0-4]|PROMPT_COMMAND|TMPDIR|TEMP|TMP|TERM|LANG|EDITOR|VISUAL|PAGER"
    r"|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|SSH_AUTH_SOCK|SSH_ASKPASS|CURL_HOME|WGETRC"
    r"|(?:HTTPS?|FTP|ALL|NO)_PROXY|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
_EXPORT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SHOWN: Final = 80


def check_entrypoint(entrypoint: str) -> str:
    """Return ``entrypoint`` when it names one Python file inside the folder.

    Raises:
        ValidationError: ``ENTRYPOINT``.
    """
    try:
        check_path(entrypoint)
    except TrustError as error:
        raise ValidationError("ENTRYPOINT", f"entrypoint: {error.message}") from error
    if not entrypoint.endswith(".py") or entrypoint.startswith("-"):
        raise ValidationError("ENTRYPOINT", f"entrypoint {_show(entrypoint)} is not a Python file of the folder")
    return entrypoint


def check_export(export: str) -> str:
    """Return ``export`` when it is the plain name of a function.

    Raises:
        ValidationError: ``EXPORT``.
    """
    if not _EXPORT.fullmatch(export) or keyword.iskeyword(export):
        raise ValidationError("EXPORT", f"export {_show(export)} is not the name of a function")
    return export


def check_network(pattern: str) -> str:
    """Return ``pattern`` when it names https origins of one owner.

    Raises:
        ValidationError: ``PERMISSION_NETWORK``.
    """
    found = _NETWORK.fullmatch(pattern)
    if found is None:
        if _is_local(pattern):
            message = f"network {_show(pattern)}: local names are not allowed, only hosts of the public network"
            raise ValidationError("PERMISSION_NETWORK", message)
        message = f"network {_show(pattern)} is not https://host or https://*.host, in lower case, without a path"
        raise ValidationError("PERMISSION_NETWORK", message)
    wildcard, host, port = found.groups()
    if host.rsplit(".", 1)[-1] in _LOCAL:
        message = f"network {_show(pattern)} leads into this machine or network: local names are not allowed"
        raise ValidationError("PERMISSION_NETWORK", message)
    if port and int(port) > _HIGHEST_PORT:
        raise ValidationError("PERMISSION_NETWORK", f"network {_show(pattern)} has a port that does not exist")
    if wildcard and _is_shared(host):
        raise ValidationError("PERMISSION_NETWORK", f"network {_show(pattern)} covers the hosts of many owners")
    return pattern


def check_secret(name: str) -> str:
    """Return ``name`` when it is the name of an environment variable that only carries a secret.

    Raises:
        ValidationError: ``PERMISSION_SECRET``.
    """
    if not _SECRET.fullmatch(name):
        raise ValidationError("PERMISSION_SECRET", f"secret {_show(name)} is not a name like EXAMPLE_API_KEY")
    if _ORDERS.fullmatch(name):
        raise ValidationError("PERMISSION_SECRET", f"secret {name} would change how programs run")
    return name


def _is_local(pattern: str) -> bool:
    """Whether ``pattern`` is a URL of one of our own hosts: a name without a dot, or below a local one."""
    found = _HOST.match(pattern)
    return found is not None and ("." not in found[1] or found[1].lower().rsplit(".", 1)[-1] in _LOCAL)


def _is_shared(host: str) -> bool:
    """Whether a wildcard below ``host`` covers more than one owner, as far as a short list can tell."""
    labels = host.split(".")
    if len(labels) == 1 or any(host == shared or host.endswith("." + shared) for shared in _SHARED):
        return True
    return len(labels) == 2 and len(labels[1]) == _COUNTRY_LENGTH and labels[0] in _REGISTRY_LABELS  # noqa: PLR2004  # "co.uk": two labels


def _show(text: str) -> str:
    return repr(neutralise(text[:_SHOWN]))
