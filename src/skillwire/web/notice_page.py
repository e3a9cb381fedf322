"""Pages that say one thing: nothing is here, not yet, it failed, or it was not allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from skillwire.web.environment import render

if TYPE_CHECKING:
    from skillwire.web.environment import Frame

#: The first three are everybody's, the others of the console: ``gone`` (no such execution), ``denied`` (no right to the
#: inbox), ``foreign`` (a form that is not ours), ``unread`` (one that cannot be read), ``again`` (to be asked again),
#: ``no-lan`` (the server is on no local network), ``denied-lan`` (no right to see it).
Notice = Literal["absent", "loading", "failed", "gone", "denied", "foreign", "unread", "again", "no-lan", "denied-lan"]


def notice_page(notice: Notice, frame: Frame) -> str:
    """Return the page as HTML. An unknown skill and one that is not public get the same page."""
    values: dict[str, Any] = {"notice": notice}
    return render("notice.html", frame, values)
