"""TLS between agents: 1.3 alone, by the certificates of the network, each judged by our own authority afterwards.

TLS proves that the other end has the key of the certificate that it shows. What the certificate is worth is not left to
the TLS library, which asks for host names and takes other curves: the client judges what the server has shown, the
server what the client has. A library cannot be given a certificate that nobody issued, so the server asks for one that
leads to its roots, and a client without one shows none. Sessions are not resumed: each connection is judged anew.
Spec: SDP §10.2; docs/decisions/0033.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.trust_files import certificate_pem, private_pem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.trust.ecdsa import EcdsaIdentity


def server_context(identity: EcdsaIdentity, authorities: Sequence[bytes]) -> ssl.SSLContext:
    """Return what a provider answers with.

    Args:
        identity: of the provider.
        authorities: certificates of roots and of those below them, DER, to one of which a client's leads.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    load_authorities(context, authorities)
    return _ours(context, identity)


def client_context(identity: EcdsaIdentity, *, shows_certificate: bool) -> ssl.SSLContext:
    """Return what a provider is asked with.

    Args:
        identity: of who asks.
        shows_certificate: whether it has one of an authority.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the caller judges it, by rules that are stricter
    if not shows_certificate:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context
    return _ours(context, identity)


def load_authorities(context: ssl.SSLContext, authorities: Sequence[bytes]) -> None:
    """Have certificates of clients asked for that lead to one of these, or to one of before."""
    if authorities:
        context.load_verify_locations(cadata="".join(certificate_pem(one).decode("ascii") for one in authorities))
        context.verify_mode = ssl.CERT_OPTIONAL


def load_identity(context: ssl.SSLContext, identity: EcdsaIdentity) -> None:
    """Have connections from now on made with this certificate and key."""
    with tempfile.TemporaryDirectory(prefix="skillwire-") as folder:  # ssl reads from files alone; this is for us alone
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_bytes(private_pem(identity.key) + certificate_pem(identity.certificate))
        context.load_cert_chain(path)


def _ours(context: ssl.SSLContext, identity: EcdsaIdentity) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_identity(context, identity)
    return context
