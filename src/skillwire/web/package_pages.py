"""The pages of a registry: a package at one of its versions, a difference, publishers, and accounts.

A package's page is that of a skill with what a registry adds: states with their reasons, versions, dependencies and
downloads. Its address ends with ``NAME`` for the latest version, and with ``NAME@VERSION`` for any, so relative links
lead from both to the same places. An account has its tokens and namespaces, and steps make one or grant a login.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from skillwire import limits
from skillwire.folder.differences import DiffLine, compare_files
from skillwire.folder.review import KINDS, compare_reviews, review_files
from skillwire.model.package import Namespace, Package, PackageName, PackageVersion, Role, Status, read_package_name
from skillwire.registry.accounts import grantable_scopes, namespaces_of
from skillwire.web.address import short_address
from skillwire.web.environment import Frame, render
from skillwire.web.public_pages import SkillAddresses, SkillText, add_commands, hit, read_files, skill_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from skillwire.model.access import DeviceLogin, Token
    from skillwire.ports import BlobStore
    from skillwire.web.public_pages import CallPart, Part

_PUBLISHERS: Final = ("publishers", "Publishers")
#: The picture of downloads: the height of a bar, and how far it is from the next.
_HEIGHT: Final = 48
_STEP: Final = 3


class ShownPackage(NamedTuple):
    """A package at one version, a page of its ``versions``, and its dependents, as far as the caller may know of them.

    ``refusal`` is why its content stays closed.
    """

    package: Package
    namespace: Namespace
    version: PackageVersion
    versions: Sequence[PackageVersion]
    downloads: Mapping[str, int]
    now: float
    has_older: bool = False
    dependents: Sequence[PackageName] = ()
    refusal: str = ""


def package_addresses(package: Package, version: PackageVersion, frame: Frame) -> SkillAddresses:
    """Return the addresses of a version's pages."""
    name, address = package.name, frame.address
    at = f"packages/{name}@{quote(version.version)}"
    is_latest = version.version == package.latest
    pinned = "" if is_latest else f"@{version.version}"
    commands: tuple[tuple[str, str, str], ...] = (
        *add_commands(f"{short_address(address)}/@{name}{pinned}"),
        ("npx", "With npx skills", f"npx skills add {address}/@{name}{pinned}"),
        ("clawhub", "With clawhub", f"npx clawhub install {name.name} --registry {address}"),
    )
    if version.state.status is Status.YANKED:
        commands = ()
    crumbs = (
        _PUBLISHERS,
        (f"publishers/{name.namespace}", name.namespace),
        (f"packages/{name}", name.name),
        (at, version.version),
    )
    artifact = f"api/registry/packages/{name}/{quote(version.version)}/download"
    return SkillAddresses(at, f"{at}/raw", artifact, crumbs, commands if is_latest else commands[:-1])


def package_page(
    shown: ShownPackage,
    text: SkillText | None,
    addresses: SkillAddresses,
    frame: Frame,
    *,
    part: Part = "readme",
    call: CallPart = None,
) -> str:
    """Return a part of the page as HTML."""
    version = shown.version
    values = {
        **skill_values(version.skill, text, addresses, part, call),
        "shown": shown,
        "package": shown.package,
        "release": version,
        "base": f"packages/{shown.package.name}",
        "requires": [(one, _required(one, version)) for one in version.skill.requires],
        "proof": proof_text(shown.namespace),
        "chart": _chart(shown.downloads, shown.now),
    }
    return render("package.html", frame, values)


def _required(text: str, version: PackageVersion) -> PackageName | None:
    """Return the package that a requirement names; None for a capability, and for a skill of another place."""
    name = text.partition("@")[0]
    return read_package_name(name if "/" in name else f"{version.package.namespace}/{name}")


def proof_text(namespace: Namespace) -> str:
    """Return how a namespace is proven; nothing for an unproven one."""
    proof = namespace.proof
    return {
        "dns": f"Proven by a DNS record of {proof.domain}",
        "file": f"Proven by a file at {proof.domain}",
        "operator": "Vouched for by an operator",
    }.get(proof.kind, "")


def _chart(downloads: Mapping[str, int], now: float) -> dict[str, Any]:
    """Return a bar for each day, oldest first, and the days that have downloads, newest first."""
    today = datetime.fromtimestamp(now, UTC).date()
    days = [str(today - timedelta(days=ago)) for ago in range(limits.REGISTRY_DOWNLOAD_DAYS - 1, -1, -1)]
    most = max((downloads.get(day, 0) for day in days), default=0)
    bars = []
    for index, day in enumerate(days):
        height = -(-downloads.get(day, 0) * _HEIGHT // (most or 1))
        bars.append({"x": index * _STEP, "y": _HEIGHT - height, "height": height})
    return {
        "bars": bars,
        "days": [(day, downloads[day]) for day in reversed(days) if day in downloads],
        "total": sum(downloads.values()),
        "most": most,
        "width": len(days) * _STEP,
        "height": _HEIGHT,
    }


def difference_page(package: Package, old: PackageVersion, new: PackageVersion, blobs: BlobStore, frame: Frame) -> str:
    """Return the page of the differences between two versions. May take half a second: not for the event loop."""
    before, after = (review_files(one.skill.name, read_files(one.skill, blobs.read)) for one in (old, new))
    values = {
        "package": package,
        "kinds": KINDS,
        "states": [one.state for one in (old, new)],
        "more": compare_reviews(before, after),
        "less": compare_reviews(after, before),
        "versions": [(one.version, package_addresses(package, one, frame)) for one in (old, new)],
        "changes": [
            (change, Markup("".join(map(_diff_row, change.lines))))  # noqa: S704  # lines are escaped
            for change in compare_files(old.skill.files, new.skill.files, blobs.read)
        ],
    }
    return render("difference.html", frame, values)


_LOOKS: Final = {"+": "added", "-": "removed", " ": "same"}


def _diff_row(line: DiffLine) -> str:
    if line.sign == "@":
        return f"<p>{line.text} unchanged {'line' if line.text == '1' else 'lines'}</p>"
    numbers = f"<span>{line.old or ''}</span><span>{line.new or ''}</span>"
    return f'<div class="{_LOOKS[line.sign]}">{numbers}<b>{line.sign}</b><code>{escape(line.text)}</code></div>'


class ShownPublisher(NamedTuple):
    """A publisher with a page of its packages, each at one version; ``members`` are for members alone."""

    namespace: Namespace
    packages: Sequence[tuple[Package, PackageVersion]]
    members: Mapping[str, Role]
    after: str | None
    now: float


def publisher_page(shown: ShownPublisher, frame: Frame) -> str:
    """Return the page of a publisher."""
    hits = [hit(version.skill, package) for package, version in shown.packages]
    return render("publisher.html", frame, {**shown._asdict(), "proof": proof_text(shown.namespace), "hits": hits})


def publishers_page(namespaces: Sequence[Namespace], after: str | None, now: float, frame: Frame) -> str:
    """Return a page of the publishers."""
    rows = [(one, proof_text(one)) for one in namespaces]
    return render("publishers.html", frame, {"rows": rows, "after": after, "now": now})


_DAY: Final = 86_400.0
#: The lifetimes of a token that forms offer: value → label, and seconds.
LIFETIMES: Final[Mapping[str, tuple[str, float | None]]] = {
    "1": ("After 1 day", _DAY),
    "30": ("After 30 days", 30 * _DAY),
    "90": ("After 90 days", 90 * _DAY),
    "365": ("After 1 year", 365 * _DAY),
    "none": ("Never", None),
}
_READING_SECONDS: Final = 3_600.0  # until a form is sent
#: What scopes mean, in the order in which forms offer them.
SCOPES: Final[Mapping[str, str]] = {
    "read": "Read what is not public",
    "publish": "Publish and yank",
    "admin": "Everything of the account",
}
#: ``enter`` asks for a code, ``confirm`` for a decision; ``set-up`` makes the first operator, if there
#: is none yet, ``new`` an account.
Step = Literal["enter", "confirm", "approved", "refused", "set-up", "has-operator", "new", "failed"]


class ShownAccount(NamedTuple):
    """An account with its valid tokens, newest first, and namespace → role; ``secret`` is that of a new token.

    ``left`` is how long new tokens can last, in seconds; None for no limit.
    """

    account: str
    is_operator: bool
    tokens: Sequence[Token]
    namespaces: Mapping[str, Role]
    now: float
    left: float | None = None
    notice: str = ""
    problem: str = ""
    secret: str = ""


def account_page(shown: ShownAccount, frame: Frame) -> str:
    """Return the page of an account."""
    return render("account.html", frame, {"shown": shown, "scopes": SCOPES, "lifetimes": _lifetimes(shown.left)})


def _lifetimes(left: float | None) -> dict[str, str]:
    """Return value → label of the lifetimes that a token with ``left`` seconds can give."""
    fitting = [row for row in LIFETIMES.items() if left is None or (row[1][1] or 0.0) + _READING_SECONDS <= left]
    offered = {value: label for value, (label, _) in fitting}
    if left is not None:
        ends = datetime.now(UTC) + timedelta(seconds=left)
        offered["none"] = f"With your token, on {ends:%Y-%m-%d}"
    return offered


def step_page(
    step: Step,
    frame: Frame,
    *,
    problem: str = "",
    typed: str = "",
    login: DeviceLogin | None = None,
    own: Collection[str] = (),
    namespaces: Sequence[str] = (),
    left: float | None = None,
) -> str:
    """Return the page of a step: what was ``typed`` or is proposed, and the login to decide about.

    The page offers what a session with the scopes ``own`` can give. The token can be limited to one of the
    ``namespaces``, or of those that the session is limited to, unless the program asked for some.
    """
    asked = login.scopes if login else ()
    given = grantable_scopes(own, asked)
    bounds = namespaces_of(own)
    values = {
        "scopes": {scope: meaning for scope, meaning in SCOPES.items() if scope in given},
        "limited": namespaces_of(given),
        "lacking": [scope for scope in asked if scope not in given],
        "is_bound": bool(bounds),
        "step": step,
        "problem": problem,
        "typed": typed,
        "login": login,
        "namespaces": bounds or namespaces,
    }
    return render("account_step.html", frame, {**values, "lifetimes": _lifetimes(left)})
