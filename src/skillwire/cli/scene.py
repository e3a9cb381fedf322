"""``skillwire scene``: ask the local network for what is to be done, rather than for who does it.

A scene is provided by whoever takes part in it. What nobody provides is looked for elsewhere, installed when the user
says so, and offered to the network, which creates the group. Spec: SDP §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skillwire.cli.client_options import open_client, open_progress, scope_option
from skillwire.cli.lan_parts import check_names, scene_object, unverified_option
from skillwire.cli.output import faint, output_options, strong
from skillwire.cli.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skillwire.cli.output import Output


def _joining_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what ``join`` and ``request`` share."""
    options = (
        click.argument("name", metavar="SCENE", callback=check_names),
        click.argument("capabilities", metavar="[CAPABILITY]...", nargs=-1, callback=check_names),
        click.option("--follow", is_flag=True, help="Stay in the group and print what changes, until Ctrl-C."),
        click.option("--show-secrets", is_flag=True, help="Print the key of the connection, if there is one."),
        unverified_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def _words(scene: str, capabilities: tuple[str, ...], *, use_unverified: bool | None) -> list[str]:
    """Return what joins a scene as it was asked for, after ``scene join``."""
    return [scene, *capabilities, *(["--unverified"] if use_unverified else [])]


@click.group(cls=Parts)
def command() -> None:
    """List, join and request the scenes of the local network.

    A scene is what is to be done, such as auth; its group are the skills that provide it: one PRIMARY, and BACKUPs that
    take its place.
    """


@command.command("list")
@output_options
def list_scenes(*, output: Output) -> None:
    """List the scenes that are provided now, and by whom."""
    from skillwire.client.lan import scenes_of  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client, progress.waiting("asking the local network"):
        skills, settings = client.lan.discover(), client.lan.settings
    found = scenes_of(skills)
    output.document("scene-list/1", {"scenes": [scene_object(scene) for scene in found]})
    output.table(
        [strong(scene.name), member.role, member.skill_id, faint(member.agent_id)]
        for scene in found
        for member in scene.members
    )
    for scene in found:
        if not scene.members:
            output.line(strong(scene.name), faint("  nobody provides it now"))
    if provided := [scene for scene in found if scene.members]:
        name = provided[0].name
        is_certified = any(skill.is_verified and skill.is_usable and name in skill.scenes for skill in skills)
        flag = "" if is_certified or settings.use_unverified else " --unverified"
        output.hint("join one:", f"skillwire scene join {name}{flag}")
    elif found:
        output.hint("who is there:", "skillwire lan")
    elif not settings.multicast:
        output.note("scenes need multicast, which your configuration turns off ([discovery.udp] enabled = false)")
    else:
        output.note("nobody on the local network provides a scene now")


@command.command()
@_joining_options
@output_options
def join(
    *,
    output: Output,
    name: str,
    capabilities: tuple[str, ...],
    follow: bool,
    show_secrets: bool,
    use_unverified: bool | None,
) -> None:
    """Join SCENE, whose provider has each CAPABILITY, and print how that is reached.

    The group is left when the command ends. With --follow it stays, and prints who joins and leaves, and who takes
    whose place. Keys are shown as ... unless --show-secrets is given; the JSON document has them. A key that could not
    be fetched is noted (DISC_005): the scene is joined, and what is public there can be used without.
    """
    from skillwire.cli.scene_parts import Joined, not_there  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client:
        with progress.waiting("joining"):
            result = client.lan.request_scene(name, capabilities, join=True, use_unverified=use_unverified)
        if not result.is_joined:
            raise not_there(result, capabilities, client.lan.settings)
        words = _words(name, capabilities, use_unverified=use_unverified)
        Joined(output, client, result, words=words, show_secrets=show_secrets).tell(follow=follow)


@command.command()
@_joining_options
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Where to look for a skill; may be repeated.")
@click.option("--skill", "wanted", metavar="NAME", help="Which of the skills that are found is installed.")
@click.option("--provide/--no-provide", default=None, help="Serve what was installed, which creates the group.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Of that server; a free one unless given.")
@click.option("-y", "--yes", is_flag=True, help="Agree to install the best skill, from an unknown origin, too.")
@scope_option
@output_options
def request(
    *,
    output: Output,
    name: str,
    capabilities: tuple[str, ...],
    follow: bool,
    show_secrets: bool,
    use_unverified: bool | None,
    origins: tuple[str, ...],
    wanted: str | None,
    provide: bool | None,
    port: int,
    yes: bool,
    for_user: bool,
) -> None:
    """Join SCENE if somebody provides it; otherwise find a skill for it, install it, and provide it.

    What nobody on the network provides is looked for in the configured sources, or those of --from. Which skill is
    installed is yours to say: on a terminal you are asked, elsewhere give --skill or --yes. Then the skill is served
    on the local network (--provide), which creates the group, until Ctrl-C.
    """
    from skillwire.cli.scene_parts import Joined, not_there  # noqa: PLC0415  # --help does without
    from skillwire.cli.scene_request import Elsewhere  # noqa: PLC0415  # same

    progress = open_progress(output)
    with open_client(output, references=origins, for_user=for_user, progress=progress) as client:
        output.note(faint("asking the local network for "), strong(name))
        with progress.waiting("requesting"):
            result = client.lan.request_scene(name, capabilities, use_unverified=use_unverified)
        if result.is_joined:
            words = _words(name, capabilities, use_unverified=use_unverified)
            Joined(output, client, result, words=words, show_secrets=show_secrets).tell(follow=follow)
            return
        missing = not_there(result, capabilities, client.lan.settings)
        output.note(faint("not there: "), missing.message)
        elsewhere = Elsewhere(output, progress, client, name, capabilities)
        chosen = elsewhere.choose(elsewhere.find(origins, missing), wanted, agreed=yes)
        folder = elsewhere.install(chosen, agreed=yes, will_provide=provide is True)
    elsewhere.provide(folder, provide, port)
