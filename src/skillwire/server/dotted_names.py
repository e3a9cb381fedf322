"""Which skill of an audience has which dotted name, made once for each audience, since it unpacks every skill."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from skillwire.server.shared_work import has_failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.server.audience import Audience

#: So many audiences' names are kept.
_KEPT: Final = 8


class DottedNames:
    """Looks names up; used by one event loop. An audience is held with its names, so no other can have its identity."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Audience, asyncio.Task[Mapping[str, str]]]] = OrderedDict()

    async def find(self, name: str, audience: Audience) -> str | None:
        """Return the name in the catalog of the skill of this dotted name that ``audience`` may know of."""
        kept = self._kept.get(id(audience))
        if kept is None or has_failed(kept[1]):
            making = asyncio.create_task(asyncio.to_thread(_names, audience))
            kept = self._kept[id(audience)] = audience, making
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(id(audience))
        return (await asyncio.shield(kept[1])).get(name)  # who goes away leaves the work to the others


def _names(audience: Audience) -> Mapping[str, str]:
    skills = audience.visible.skills
    return {skill.identifiers.skills_rpc: name for name, skill in skills.items() if skill.identifiers is not None}
