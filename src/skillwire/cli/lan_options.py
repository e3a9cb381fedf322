"""Options and settings of the local network for ``serve`` and ``lan``."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillwire.adapters.files.settings_file import own_discovery, read_discovery_file
from skillwire.adapters.lan import sockets
from skillwire.cli.lan_view import check_names
from skillwire.cli.options import combine
from skillwire.errors import SourceLocation, UsageError
from skillwire.model.lan import host_and_port
from skillwire.model.url import parse_url
from skillwire.resolver.settings import DiscoverySource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket

    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.protocols.skill_discovery.messages import Reason
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.configuration import ServerConfiguration


discovery_option = click.option(
    "--discovery",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Discovery configuration, YAML or TOML; replaces [discovery] in other files.",
)
lan_options = combine(
    click.option("--lan", is_flag=True, help="Announce the public skills on the local network."),
    click.option("--dht", is_flag=True, help="Announce the public skills in the DHT."),
    click.option(
        "--interface",
        "interfaces",
        multiple=True,
        metavar="NAME",
        help="Network interface or address to announce on; all active ones by default; repeatable.",
    ),
    click.option(
        "--scene",
        "scenes",
        multiple=True,
        metavar="NAME",
        callback=check_names,
        help="Additional scene of the skills; repeatable.",
    ),
    discovery_option,
)


def read_dht(configured: LanSettings | None, *, dht: bool, discovery: str | None) -> LanSettings | None:
    """Return the settings of the DHT; None without ``--dht`` where the server's configuration does not enable it."""
    if not dht and (configured is None or not configured.dht.enabled):
        return None
    return discovery_settings(configured, discovery)


def read_lan(
    configured: LanSettings | None,
    *,
    lan: bool,
    interfaces: Sequence[str],
    discovery: str | None,
    scenes: Sequence[str] = (),
    dht: bool = False,
) -> LanSettings | None:
    """Return the settings of the local network; None without ``--lan``.

    The file of ``--discovery`` replaces the server's configuration, which replaces the user's settings; ``--interface``
    overrides all of them.
    """
    if not lan:
        if interfaces or scenes or (discovery is not None and not dht):
            name = "--interface" if interfaces else "--scene" if scenes else "--discovery"
            raise UsageError("USAGE", f"{name} requires --lan", fix="Add --lan.")
        return None
    return lan_settings(configured, discovery, interfaces)


def lan_settings(configured: LanSettings | None, discovery: str | None, interfaces: Sequence[str] = ()) -> LanSettings:
    """Return the settings of the local network, as :func:`read_lan` reads them."""
    settings = discovery_settings(configured, discovery)
    if not (settings.multicast or settings.mdns):
        fix = "Set enabled = true in [discovery.udp] or [discovery.mdns], or serve without --lan."
        raise UsageError("USAGE", "--lan announces nothing: discovery.udp and discovery.mdns are not enabled", fix=fix)
    return replace(settings, interfaces=tuple(interfaces)) if interfaces else settings


def read_configuration(path: str) -> ServerConfiguration:
    """Return the configuration of a server in the file at ``path``. Raises UsageError (``SERVER_CONFIGURATION``)."""
    from skillwire.server.configuration import load_configuration  # noqa: PLC0415  # takes a while to import

    return load_configuration(Path(path))


def read_goodbye_reason(config: str | None, discovery: str | None) -> Reason:
    """Return the goodbye reason in the files of ``--config`` and ``--discovery`` as the operator has edited them."""
    return discovery_settings(read_configuration(config).discovery if config else None, discovery).goodbye_reason


def exposure_warning(
    lan: LanSettings | None, host: str | None, listeners: Sequence[socket], *, is_dht: bool = False
) -> tuple[str, str] | None:
    """Return a warning about the machines that reach a server, and its remedy; None for none."""
    if lan is not None and host is None:
        return "open to the network: ", "on all addresses of this machine; --host restricts it"
    addresses = [ip_address(one.getsockname()[0]) for one in listeners]
    if lan is None:
        if all(address.is_loopback for address in addresses):
            return None
        where = "all addresses" if addresses[0].is_unspecified else str(addresses[0])
        return "open to the network: ", f"on {where} of this machine; leave out --host to serve this machine alone"
    if not lan.interfaces and all(address.is_loopback for address in addresses):
        if is_dht:
            fix = "leave out --host, or name the address that others reach: --base-url URL"
            return "not announced to others: ", f"no other machine reaches {host}; {fix}"
        return "announced to this machine only: ", f"no other machine reaches {host}; leave out --host to serve others"
    return None


def base_url_warning(base_url: str | None, listeners: Sequence[socket]) -> tuple[str, str] | None:
    """Return a warning that a server does not listen at its base URL, and its remedy; None for none.

    A host name, an address of another machine, another port and https may be those of a proxy.
    """
    base = None if base_url is None else parse_url(base_url)
    places = [one.getsockname()[:2] for one in listeners]
    if base is None or base.scheme == "https":
        return None
    if any(base.port != port or host in {base.host, "0.0.0.0", "::"} for host, port in places):  # noqa: S104  # everywhere
        return None
    try:
        is_ours = base.host in {one.host for one in sockets.present()}
    except (OSError, UsageError):  # they cannot be listed
        return None
    everywhere = "::" if ":" in base.host else "0.0.0.0"  # noqa: S104  # what the user is advised to choose
    why = f"the server listens on {places[0][0]} alone; unless a proxy listens there, add --host {everywhere}"
    return (f"not reached at {base_url}: ", why) if is_ours else None


def has_authority(configured: LanSettings | None, *, registry: bool) -> bool:
    """Whether the settings of a server name an authority; the user's own count for a registry alone."""
    return bool((configured or registry) and discovery_settings(configured, None).authority)


def announced_at(lan: LanSettings | None, listeners: Sequence[socket]) -> list[str]:
    """Return the URLs announced on the local network, one for each current interface."""
    if lan is None:
        return []
    from skillwire.server.lan.service import advertised_address  # noqa: PLC0415  # takes a while to import

    endpoint, fitting = advertised_address(lan, [one.getsockname()[:2] for one in listeners])
    try:
        links = sockets.links(sockets.present(), fitting.interfaces, has_ipv6=bool(fitting.group6))
    except (OSError, UsageError):  # the log says why the server is not on the network
        return []
    hosts = dict.fromkeys([endpoint.host] if endpoint.host and links else [one.host for one in links])
    return [f"http://{host_and_port(host, endpoint.port)}" for host in hosts]


def discovery_settings(configured: LanSettings | None, discovery: str | None) -> LanSettings:
    """Return the settings in the file of ``--discovery``, else the server's, else the user's."""
    if discovery is not None:
        from skillwire.resolver.lan_settings import join_discovery  # noqa: PLC0415  # takes a while to import

        named = DiscoverySource(discovery, SourceLocation(discovery), is_project=False)
        return join_discovery((named,), read_discovery_file)
    if configured is not None:
        return configured
    return own_discovery()


def make_agent(settings: LanSettings) -> LanAgent:
    """Return an agent that only queries and listens; it offers nothing."""
    from skillwire.adapters.lan.agent import ASKING, LanAgent  # noqa: PLC0415  # sockets and cryptography are heavy

    return LanAgent(settings, roles=ASKING, keeps_state=False)
