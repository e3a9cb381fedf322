"""Why a server refuses, in its own words, as the body of an answer may tell it.

Servers of ours, Skill Sharing and JSON-RPC tell it as ``error.message``, problem details as ``detail``, OAuth as
``error_description``. Spec: SSP §8.2; JSON-RPC §5.1; RFC 9457 §3.1.4; RFC 6749 §5.2.
"""

from __future__ import annotations

from typing import Final

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise

_BYTES: Final = 64 * limits.KIB
_SHOWN: Final = 500
_NAMES: Final = ("detail", "error_description")


def told_reason(body: bytes) -> str:
    """Return the reason that ``body`` tells; empty when it tells none, as a proxy's page does not.

    Trust: hostile. The text is bounded and without hidden characters; nothing in the body raises.
    """
    try:
        document = load_json(body, max_bytes=_BYTES)
    except DecodeError:
        return ""
    if not isinstance(document, dict):
        return ""
    error = document.get("error")
    told = (error.get("message") if isinstance(error, dict) else None, *map(document.get, _NAMES))
    return next((neutralise(text[:_SHOWN]) for text in told if isinstance(text, str) and text), "")
