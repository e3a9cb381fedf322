"""TLS for both drivers: at least 1.2, always verified, against the system's certificate authorities.

``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name other authorities, as for every program on OpenSSL. Verification cannot be
turned off. Importing ``ssl`` and making its context take milliseconds, so this module is imported for the first https
connection only.
"""

from __future__ import annotations

import os
import ssl

from skillwire.errors import FetchError, SourceLocation
from skillwire.model.url import Url


def client_context() -> ssl.SSLContext:
    """Return the context that connections are made with; loads the certificate authorities."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python before 3.11.4 sets it, and a stream that was cut would pass for one that ended.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_failure(url: Url, error: OSError) -> FetchError | None:
    """Return the error of a failed handshake; None for any other error."""
    fix: str | None = None
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {url.host} is not valid: {error.verify_message}"
        if (problem := _problem_of_authorities()) is not None:
            message, fix = f"{message}; {problem}", "Set SSL_CERT_FILE to a PEM file with certificates."
    elif isinstance(error, ssl.SSLError):
        message = f"no TLS with {url.host}: {error.reason or error}"
        if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
            message, fix = f"port {url.port} of {url.host} does not speak TLS", f"Write http://{url.authority}."
    else:
        return None
    return FetchError("TLS_FAILED", message, place=SourceLocation(str(url)), fix=fix)


def _problem_of_authorities() -> str | None:
    """Return why the file in ``SSL_CERT_FILE`` adds no authority: OpenSSL ignores such a file silently."""
    path = os.environ.get("SSL_CERT_FILE")
    if not path:
        return None
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        return f"SSL_CERT_FILE is {path}, which cannot be read as certificates: {error.strerror or error}"
    return None
