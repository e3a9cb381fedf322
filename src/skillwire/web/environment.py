"""The templates, prepared once, with the words that they use, and the notices and the login.

Every printed expression is escaped and its hidden characters are shown, so no template can forget either. A time is
shown twice: relative for a glance, and absolute, in UTC as logs hold it. The script of the console updates relative
times with the same words.

Trust: JSON values are untrusted. A value that is too large, too deep or unreadable is shown as it came, up to the
bound.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from markupsafe import Markup

from skillwire import limits
from skillwire.executions.tasks import person_name
from skillwire.model.execution import Execution, ExecutionStatus
from skillwire.trust.hidden_text import neutralise
from skillwire.version import VERSION
from skillwire.web.assets import POLICY, Branding, asset_urls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment


TEMPLATES: Final = Path(__file__).parent / "templates"
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

    ``is_registry`` is whether the site is a registry, ``brand`` what its operator says of it. ``end`` is the ending of
    the pages of a static site, which may not know its ``address``.
    """

    address: str
    up: str
    person: SignedInPerson | None = None
    is_registry: bool = False
    brand: Branding = Branding()
    end: str = ""


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
        loader=jinja2.FileSystemLoader(TEMPLATES),
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
    # A policy in the page itself has no frame-ancestors.
    environment.globals["policy"] = POLICY.rpartition(";")[0]
    return environment


#: The first four are the public, the others of the console: ``gone`` (no such execution), ``denied`` (no right to the
#: inbox), ``foreign`` (a form that is not ours), ``unread`` (one that cannot be read), ``again`` (to be asked again),
#: ``no-lan`` (the server is on no local network), ``denied-lan`` (no right to see it).
Notice = Literal[
    "absent", "loading", "failed", "storage", "gone", "denied", "foreign", "unread", "again", "no-lan", "denied-lan"
]


def notice_page(notice: Notice, frame: Frame, following: str = "", near: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page. An unknown skill and one that is not public get the same; ``again`` leads to ``following``.

    ``near`` are paths and names that the reader may have meant.
    """
    values = {"notice": notice, "following": following.removeprefix("/"), "near": near}
    return render("notice.html", frame, values)


def login_page(
    frame: Frame, *, following: str = "", problem: str = "", is_local: bool = False, provider: str = ""
) -> str:
    """Return the page; ``following`` is the path to go to afterwards, ``is_local`` a browser on this machine.

    ``provider`` is the host where people sign in with OpenID Connect.
    """
    values = {"following": following, "problem": problem, "is_local": is_local, "provider": provider}
    return render("login.html", frame, values)


#: Statuses in the order of a life.
STATUSES: Final[Mapping[ExecutionStatus, str]] = {
    ExecutionStatus.ACCEPTED: "Waiting",
    ExecutionStatus.RUNNING: "Running",
    ExecutionStatus.COMPLETED: "Completed",
    ExecutionStatus.FAILED: "Failed",
    ExecutionStatus.TIMEOUT: "Timed out",
}
EXECUTORS: Final[Mapping[str, str]] = {"python": "Python", "http": "HTTP", "function": "Function", "human": "Person"}
REASONS: Final[Mapping[str, str]] = {
    "cancelled": "Cancelled",
    "worker_lost": "Worker lost",
    "deadline": "Past its deadline",
    "exception": "Exception",
    "exit": "Ended without a result",
    "limit": "Limit of the sandbox",
    "output": "Unexpected output",
    "upstream": "Upstream failed",
    "rejected": "Declined",
    "not_granted": "Not granted",
    "unavailable": "Not available",
}


def status_label(execution: Execution) -> str:
    """Return the status of an execution, or how it failed where that has a name."""
    if execution.status is ExecutionStatus.RUNNING and execution.worker is None:
        return "Waiting again"
    if execution.failure is not None and execution.failure.reason in {"cancelled", "rejected"}:
        return REASONS[execution.failure.reason]
    return STATUSES[execution.status]


def status_look(execution: Execution) -> str:
    """Return the class of an execution's badge."""
    if execution.status is ExecutionStatus.RUNNING and execution.worker is None:
        return "accepted"
    if execution.failure is not None and execution.failure.reason == "cancelled":
        return "cancelled"
    return execution.status.value


_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))
_SECOND: Final = 1.0
_FEW_SECONDS: Final = 10.0


class Instant(NamedTuple):
    """A time: for machines, in full, and relative to the moment at which the page was made."""

    iso: str
    clock: str
    relative: str


def past(at: float, now: float) -> Instant:
    """Return a past time, as of ``now``; both in seconds since the epoch."""
    return _instant(at, f"{_rough(now - at)} ago" if now - at >= _SECOND else "now")


def ahead(at: float, now: float) -> Instant:
    """Return the time at which something ends: how much is left."""
    left = at - now
    return _instant(at, f"{_rough(left)} left" if left >= _SECOND else "over" if left <= 0 else "1 s left")


def _instant(at: float, relative: str) -> Instant:
    moment = datetime.fromtimestamp(at, UTC)
    iso = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Instant(iso, f"{moment:%Y-%m-%d %H:%M:%S} UTC", relative)


def duration_text(seconds: float) -> str:
    """Return how long something took: ``84 ms``, ``3.2 s``, ``2 min 5 s``, ``3 h 12 min``."""
    seconds = max(0.0, seconds)
    if round(seconds, 3) < _SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _FEW_SECONDS:
        return f"{seconds:.1f} s"
    parts: list[str] = []  # the two largest units are shown
    left = round(seconds)
    for unit, size in (*_UNITS, ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part)


def _rough(seconds: float) -> str:
    """Return the largest unit of a duration, rounded down."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"


#: What is longer is shown folded.
_LINES: Final = 24
_LENGTH: Final = 4_000


class JsonText(NamedTuple):
    """What is shown of a value: its text, the size of the whole in bytes, and whether that is more than is shown."""

    text: str
    size: int
    lines: int
    is_cut: bool

    @property
    def is_long(self) -> bool:
        """Whether it is shown folded."""
        return self.lines > _LINES or len(self.text) > _LENGTH


def json_text(data: bytes) -> JsonText:
    """Return what is shown of the JSON document ``data``."""
    if len(data) > limits.CONSOLE_JSON_BYTES:
        shown = data[: limits.CONSOLE_JSON_BYTES].decode("utf-8", "replace")
        return JsonText(shown, len(data), shown.count("\n") + 1, is_cut=True)
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = data.decode("utf-8", "replace")
    return JsonText(text, len(data), text.count("\n") + 1, is_cut=False)
