"""The templates, prepared once: what is printed is escaped, and hidden characters in it are shown.

Both happen to every expression of every template, so a template cannot forget them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from skillwire.trust.hidden_text import neutralise
from skillwire.version import VERSION
from skillwire.web.assets import asset_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATES: Final = Path(__file__).parent / "templates"
_THOUSAND: Final = 1024


class Person(NamedTuple):
    """Who is signed in to the console: their name, what each form of theirs carries, and what they may see.

    ``sees_all`` executions, and not only their own; ``may_work`` the inbox; ``sees_lan``, where one is served.
    """

    name: str
    form_token: str
    sees_all: bool = False
    may_work: bool = False
    sees_lan: bool = False


class Frame(NamedTuple):
    """What every page knows: the site's absolute address, the way to its root, ``./`` or ``../``, and who looks."""

    address: str
    up: str
    person: Person | None = None


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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show_hidden,
    )
    environment.filters["size"] = size_text
    environment.globals["asset"] = asset_urls()
    environment.globals["version"] = VERSION
    return environment


def _show_hidden(value: Any) -> Any:
    return neutralise(value) if isinstance(value, str) and not isinstance(value, Markup) else value
