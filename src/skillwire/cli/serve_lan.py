"""What ``serve --lan`` says of the local network: who says how it is spoken, and where the server listens for it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skillwire.cli.lan_view import check_names
from skillwire.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from socket import socket

    from skillwire.protocols.skill_discovery.messages import Reason
    from skillwire.protocols.skill_discovery.settings import LanSettings

F = TypeVar("F", bound="Callable[..., Any]")


def lan_options(function: F) -> F:
    """Add the options of the local network to a command."""
    options = (
        click.option("--lan", is_flag=True, help="Announce the skills that everybody may see on the local network."),
        click.option(
            "--interface",
            "interfaces",
            multiple=True,
            metavar="NAME",
            help="Network interface, or its address, to do that on; all that are up unless given.",
        ),
        click.option(
            "--scene",
            "scenes",
            multiple=True,
            metavar="NAME",
            callback=check_names,
            help="A scene that the skills take part in, beside those that their folders name; repeatable.",
        ),
        click.option(
            "--discovery",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="How it is done: YAML as Skill Discovery writes it, or TOML; in place of [discovery] elsewhere.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read_lan(
    configured: LanSettings | None,
    *,
    lan: bool,
    interfaces: Sequence[str],
    discovery: str | None,
    scenes: Sequence[str] = (),
) -> LanSettings | None:
    """Return how the local network is spoken; None when it is not.

    The file of ``--discovery`` counts, or else the server's configuration, or else the user's settings; and
    ``--interface`` over all of them.

    Raises:
        UsageError: ``USAGE`` for options that mean nothing without ``--lan``.
        ValidationError: ``DISCOVERY_CONFIGURATION``. StorageError, DecodeError: a file cannot be read.
    """
    if not lan:
        if interfaces or scenes or discovery is not None:
            name = "--interface" if interfaces else "--scene" if scenes else "--discovery"
            raise UsageError("USAGE", f"{name} means nothing without --lan", fix="Add --lan.")
        return None
    settings = _settings(configured, discovery)
    return replace(settings, interfaces=tuple(interfaces)) if interfaces else settings


def read_goodbye_reason(config: str | None, discovery: str | None) -> Reason:
    """Return why the server leaves that is told to end, by what its files say now: the operator may have changed that.

    Args:
        config: the server's configuration, if there is one.
        discovery: the file of ``--discovery``, the same.

    Raises:
        SkillwireError: a file cannot be used any more.
    """
    from skillwire.server.configuration import load_configuration  # noqa: PLC0415  # takes a while to import

    return _settings(load_configuration(Path(config)).discovery if config else None, discovery).goodbye_reason


def listen_for(lan: LanSettings | None, host: str | None, port: int) -> list[socket]:
    """Return the sockets of a server: at ``host``; without one, at every address with the LAN, else at loopback.

    Raises:
        UsageError, ConflictError: as :func:`skillwire.server.run.listen`.
    """
    from skillwire.server.run import listen, listen_everywhere  # noqa: PLC0415  # takes a while to import

    if host is None and lan is not None:
        return listen_everywhere(port)
    return [listen(host or "127.0.0.1", port)]


def announced_at(lan: LanSettings | None, listeners: Sequence[socket]) -> list[str]:
    """Return the URLs at which others on the local network are told that the server is; those of now, by interface.

    Args:
        lan: how the network is spoken; None when it is not.
        listeners: from :func:`listen_for`.
    """
    if lan is None:
        return []
    from skillwire.adapters.lan import sockets  # noqa: PLC0415  # with --lan
    from skillwire.model.lan import host_and_port  # noqa: PLC0415  # same
    from skillwire.server.lan.service import advertised_address  # noqa: PLC0415  # same

    reach = advertised_address(lan, [one.getsockname()[:2] for one in listeners])
    try:
        links = sockets.links(sockets.present(), reach.settings.interfaces, has_ipv6=bool(reach.settings.group6))
    except (OSError, UsageError):  # the log says why the server is not on the network
        return []
    hosts = dict.fromkeys([reach.host] if reach.host and links else [one.host for one in links])
    return [f"http://{host_and_port(host, reach.port)}" for host in hosts]


def _settings(configured: LanSettings | None, discovery: str | None) -> LanSettings:
    from skillwire.adapters.files.settings_file import load_settings, read_discovery_file  # noqa: PLC0415  # with --lan
    from skillwire.errors import SourceLocation  # noqa: PLC0415  # same
    from skillwire.resolver.lan_settings import join_discovery  # noqa: PLC0415  # same
    from skillwire.resolver.settings import DiscoverySource  # noqa: PLC0415  # same

    if discovery is not None:
        named = DiscoverySource(discovery, SourceLocation(discovery), is_project=False)
        return join_discovery((named,), read_discovery_file)
    if configured is not None:
        return configured
    return join_discovery(load_settings(Path.cwd(), os.environ).discovery, read_discovery_file)
