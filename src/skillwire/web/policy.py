"""What a browser may do with a page of ours, as header fields.

Nothing inline, nothing from elsewhere, nobody's frame. Pages stand on the origin that serves skills' files, too;
those come with a sandbox and types that no browser executes, and ``nosniff`` makes that hold for the one script.
"""

from __future__ import annotations

from typing import Final

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

#: On every page.
PAGE_FIELDS: Final[dict[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: On every page of the console: nobody else's cache may hold it, and its forms say from which site they come, which a
#: browser leaves out where no referrer is allowed.
CONSOLE_FIELDS: Final[dict[str, str]] = {
    **PAGE_FIELDS,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
}
#: On the files that pages need.
ASSET_FIELDS: Final[dict[str, str]] = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
