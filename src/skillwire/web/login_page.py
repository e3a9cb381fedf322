"""Signing in to the console with an API key, and signing out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillwire.web.environment import render

if TYPE_CHECKING:
    from skillwire.web.environment import Frame


def login_page(frame: Frame, *, following: str = "", problem: str = "", is_local: bool = False) -> str:
    """Return the page as HTML; for somebody who is signed in it says so, and signs them out.

    Args:
        frame: see there.
        following: where to go afterwards: a path of the console from the root of the site, and its query.
        problem: why they were not signed in.
        is_local: whether the browser runs on the server's machine, so that the page may say how to make a key.
    """
    values: dict[str, Any] = {"following": following, "problem": problem, "is_local": is_local}
    return render("login.html", frame, values)
