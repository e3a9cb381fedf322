"""Putting the Skills Protocol together: its methods, and the doors at which they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.server.doors import Annex
from skillwire.server.origins import Origins
from skillwire.server.rpc.answering import Answering
from skillwire.server.rpc.blobs import BLOBS_PATH, BlobDoor
from skillwire.server.rpc.methods import Methods
from skillwire.server.rpc.route import RPC_PATH, RpcDoor

if TYPE_CHECKING:
    from skillwire.server.compose import Parts
    from skillwire.server.doors import Door


def make_rpc(parts: Parts) -> Annex:
    """Return the doors of ``/rpc`` and ``/blobs``."""
    runs = parts.executions.runs
    origins = Origins(parts.configuration.runs.origins, parts.base_url)
    blobs = BlobDoor(runs, origins)
    rpc = RpcDoor(Answering(Methods(runs)), parts.skills, parts.authentication, origins, parts.executions.answers)
    doors: dict[str, Door] = {RPC_PATH: rpc, BLOBS_PATH: blobs.create, f"{BLOBS_PATH}/": blobs.read}
    return Annex(doors, again=rpc.lists.answer)
