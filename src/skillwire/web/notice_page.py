"""Pages that say one thing: nothing is here, not yet, or it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from skillwire.web.environment import render

if TYPE_CHECKING:
    from skillwire.web.environment import Frame

Notice = Literal["absent", "loading", "failed"]


def notice_page(notice: Notice, frame: Frame) -> str:
    """Return the page as HTML. An unknown skill and one that is not public get the same page."""
    values: dict[str, Any] = {"notice": notice}
    return render("notice.html", frame, values)
