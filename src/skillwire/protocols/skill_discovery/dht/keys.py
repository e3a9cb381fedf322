"""The keys of the DHT, 32 bytes each: where the record of a skill is stored, and looked up. Spec: SDP §6.2; specs §3.

The text writes a key as SHA-256 of ``skillId + capability`` in its figure and of ``skillId:capability`` in its code. We
write the code's form, and read the figure's where a lookup of the code's form finds nothing. Two keys are **[ours]**:
that of a capability alone, since ``findByCapability`` names no skill, and that of a skill alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def skill_key(skill_id: str, capability: str) -> bytes:
    """Return the key of one capability of a skill, as the text's code writes it."""
    return _key(f"{skill_id}:{capability}")


def figure_key(skill_id: str, capability: str) -> bytes:
    """Return the same as the text's figure writes it; it is never written by us."""
    return _key(skill_id + capability)


def capability_key(capability: str) -> bytes:
    """Return the key of all skills with a capability."""
    return _key(f"cap:{capability}")


def name_key(skill_id: str) -> bytes:
    """Return the key of a skill, whatever its capabilities."""
    return _key(f"skill:{skill_id}")


def keys_to_write(skill_id: str, capabilities: Iterable[str]) -> tuple[bytes, ...]:
    """Return the keys under which a record is put."""
    keys = [name_key(skill_id)]
    for capability in capabilities:
        keys += skill_key(skill_id, capability), capability_key(capability)
    return tuple(dict.fromkeys(keys))


def is_key_of(key: bytes, skill_id: str, capabilities: Sequence[str]) -> bool:
    """Return whether a record may be stored under a key: one that we write, or the figure's form."""
    figures = (figure_key(skill_id, capability) for capability in capabilities)
    return key in keys_to_write(skill_id, capabilities) or key in figures
