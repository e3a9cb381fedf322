"""What a skill says about itself for Skill Sharing: the part of a descriptor that is the publisher's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.digest import Digest


class SharedInput(NamedTuple):
    """One input of an action: its name, its type in JSON Schema, what it means, and its default, None for none.

    ``schema`` says more than the type does, where that is not enough.
    """

    name: str
    input_type: str
    description: str
    required: bool = False
    default: object = None
    schema: Mapping[str, Any] | None = None


class Sharing(NamedTuple):
    """The publisher's part of a Skill Descriptor.

    ``descriptor`` is the digest of a ``descriptor.json`` in the folder, which is then served as it is; the other
    fields say the same as it does. ``auth``, ``output`` and ``endpoint`` are the tables of ``skill.toml``, None where
    it has none. Spec: SSP §3; specs §0.
    """

    name: str
    description: str
    version: str
    capability_type: str
    tags: tuple[str, ...] = ()
    inputs: tuple[SharedInput, ...] = ()
    auth: Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None
    descriptor: Digest | None = None
