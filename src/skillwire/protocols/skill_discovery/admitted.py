"""What the gate lets through: a message, and what is known of who sent it. Spec: SDP §10; specs §3."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skill_discovery.identity import Standing

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.identity import Judgement
    from skillwire.protocols.skill_discovery.messages import Message, Outcome
    from skillwire.wire.node import Peer


class Admitted(NamedTuple):
    """A message that may be acted on.

    Args:
        message: what it says.
        data: the datagram.
        source: where it came from.
        standing: what is known of its signer.
        judgement: of the signer's key; None for a stranger, and for what is not signed.
        is_repeated: whether the very same datagram came before.
        is_proven: whether its signer has proven to be at ``source``; of what nobody signs, whether anybody has.
        is_released: whether it was held until now.
        signer: whose key ``judgement`` is of.
        proves: digest of the answer to us that the signer has proven to have sent; empty where it is not about that.
        refused: what a registration is answered that counts for nothing; None for one that is judged by what it says.
    """

    message: Message
    data: bytes
    source: Peer
    standing: Standing
    judgement: Judgement | None = None
    is_repeated: bool = False
    is_proven: bool = False
    signer: str = ""
    proves: bytes = b""
    is_released: bool = False
    refused: tuple[Outcome, str] | None = None


def of_stranger(
    message: Message,
    data: bytes,
    source: Peer,
    *,
    is_proven: bool = False,
    is_released: bool = True,
    refused: tuple[Outcome, str] | None = None,
) -> Admitted:
    """Return a message by a key that we do not have, or that counts for nothing."""
    return Admitted(message, data, source, Standing.STRANGER, None, False, is_proven, "", b"", is_released, refused)
