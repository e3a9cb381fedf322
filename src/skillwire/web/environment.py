"""The templates, prepared once, and the pages for notices and for signing in.

Every printed expression is escaped and its hidden characters are shown, so no template can forget either.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from markupsafe import Markup

from skillwire.executions.tasks import person_name
from skillwire.trust.hidden_text import neutralise
from skillwire.version import VERSION
from skillwire.web.assets import asset_urls
from skillwire.web.labels import EXECUTORS, REASONS, ahead, duration_text, json_text, past, status_label, status_look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

_TEMPLATES: Final = Path(__file__).parent / "templates"
_THOUSAND: Final = 1024


class SignedInPerson(NamedTuple):
    """The user of the console, the token of their forms, and their rights: all executions, the inbox, the LAN.

    ``token_id`` is that of the token of their session.
    """

    name: str
    form_token: str
    sees_all: bool = False
    may_work: bool = False
    sees_lan: bool = False
    token_id: str = ""


class Frame(NamedTuple):
    """What every page knows: the site's absolute address, the way to its root, ``./`` or ``../``, and who looks.

    ``is_registry`` is whether the site is a registry.
    """

    address: str
    up: str
    person: SignedInPerson | None = None
    is_registry: bool = False


def render(template: str, frame: Frame, values: Mapping[str, Any]) -> str:
    """Return a page, or a part of one, as HTML."""
    return _environment().get_template(template).render(values, frame=frame)


def size_text(size: int) -> str:
    """Return a size as people say it: ``812 B``, ``4.2 KiB``."""
    if size < _THOUSAND:
        return f"{size} B"
    amount = size / _THOUSAND
    for unit in ("KiB", "MiB"):
        if amount < _THOUSAND:
            return f"{amount:.1f} {unit}"
        amount /= _THOUSAND
    return f"{amount:.1f} GiB"


def shorten(text: str, most: int) -> str:
    """Return ``text`` in one line of at most about ``most`` characters, cut between two words."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + " …"


@cache
def _environment() -> Environment:
    import jinja2  # noqa: PLC0415  # a tenth of a second, for the first page

    def show_hidden(value: Any) -> Any:
        return neutralise(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=show_hidden,
    )
    environment.filters |= {
        "size": size_text,
        "shorten": shorten,
        "past": past,
        "ahead": ahead,
        "duration": duration_text,
        "json": json_text,
        "status": status_label,
        "look": status_look,
        "person": person_name,
    }
    environment.globals |= {"EXECUTORS": EXECUTORS, "REASONS": REASONS}
    environment.globals["asset"] = asset_urls()
    environment.globals["version"] = VERSION
    return environment


#: The first three are the public, the others of the console: ``gone`` (no such execution), ``denied`` (no right to the
#: inbox), ``foreign`` (a form that is not ours), ``unread`` (one that cannot be read), ``again`` (to be asked again),
#: ``no-lan`` (the server is on no local network), ``denied-lan`` (no right to see it).
Notice = Literal["absent", "loading", "failed", "gone", "denied", "foreign", "unread", "again", "no-lan", "denied-lan"]


def notice_page(notice: Notice, frame: Frame, following: str = "") -> str:
    """Return the page. An unknown skill and one that is not public get the same; ``again`` leads to ``following``."""
    return render("notice.html", frame, {"notice": notice, "following": following.removeprefix("/")})


def login_page(
    frame: Frame, *, following: str = "", problem: str = "", is_local: bool = False, provider: str = ""
) -> str:
    """Return the page; ``following`` is the path to go to afterwards, ``is_local`` a browser on this machine.

    ``provider`` is the host where people sign in with OpenID Connect.
    """
    values = {"following": following, "problem": problem, "is_local": is_local, "provider": provider}
    return render("login.html", frame, values)
