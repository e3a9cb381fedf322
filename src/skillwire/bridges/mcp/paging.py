"""Pages of skills, by name.

A cursor holds the last name of the page before, so a change between two pages neither repeats a skill nor leaves one
out that was there all the time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from skillwire import limits
from skillwire.model.cursor import seal, unseal
from skillwire.model.name import is_skill_name

if TYPE_CHECKING:
    from collections.abc import Sequence


def page_after(names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], str | None]:
    """Return the names of the page that ``cursor`` asks for, and the cursor of the next one, if there is one.

    Args:
        names: in order.
        cursor: as it was given with the page before; None for the first.

    Raises:
        MCPError: -32602 for a cursor that is none of ours.
    """
    start = bisect_right(names, _name_in(cursor)) if cursor is not None else 0
    page = names[start : start + limits.MCP_PAGE]
    is_last = start + len(page) >= len(names)
    return page, None if is_last else seal(page[-1].encode("ascii"))


def _name_in(cursor: str) -> str:
    name = unseal(cursor, limits.RPC_CURSOR_LENGTH).decode("latin-1")
    if not is_skill_name(name):
        raise MCPError(INVALID_PARAMS, "this cursor came with no page of this server")
    return name
