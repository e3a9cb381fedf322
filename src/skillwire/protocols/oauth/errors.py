"""An authorization server's error codes, and ours for them. Spec: RFC 6749 §4.1.2.1, §5.2; RFC 8628 §3.5."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwire.errors import FetchError, SourceLocation
from skillwire.trust.hidden_text import neutralise

#: Their code → ours. Every other one is LOGIN_REFUSED.
ERRORS: Final[Mapping[str, str]] = {"access_denied": "LOGIN_DENIED", "expired_token": "LOGIN_TIMEOUT"}

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,40}", re.ASCII)
_SHOWN: Final = 200


def refusal(answer: Mapping[str, Any], place: SourceLocation, secrets: Sequence[str] = ()) -> FetchError:
    """Return the error in ``answer``; ``details["error"]`` is the server's code.

    Trust: the texts are hostile. A description is bounded, shown without hidden characters, and dropped if it repeats
    one of ``secrets``.
    """
    code, description = answer.get("error"), answer.get("error_description")
    theirs = code if isinstance(code, str) and _CODE.fullmatch(code) and code not in secrets else "unknown"
    message = f"the authorization server answered {theirs}"
    if isinstance(description, str) and description and not any(secret in description for secret in secrets):
        message = f"{message}: {neutralise(description[:_SHOWN])}"
    return FetchError(ERRORS.get(theirs, "LOGIN_REFUSED"), message, place=place, details={"error": theirs})
