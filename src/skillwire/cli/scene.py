"""``skillwire scene``: list, join and request scenes of the local network. Spec: SDP §4.

A scene is a purpose, such as ``auth``, that a group of skills provides. A scene without a provider can be requested:
a skill is found in the sources, installed after confirmation, and served on the network, which creates the group.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.add import carry_out, inspect, print_report
from skillwire.cli.lan_view import check_names, heard, lan_object, scene_object, unverified_option
from skillwire.cli.options import (
    CommandGroup,
    ask,
    combine,
    confirm,
    has_terminal,
    open_client,
    scope_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import (
    Output,
    bold,
    dim,
    failure,
    folded,
    output_options,
    print_end,
    print_event,
    success,
    warning,
)
from skillwire.errors import NotFoundError, SkillwireError, UsageError
from skillwire.folder.manifest import parse_manifest
from skillwire.model.lan import SECRET_KEYS, FoundVia, LanChange, SceneResult
from skillwire.resolver.ladder import CACHE, LAN
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources.lan import not_joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.documents import JoinedScene
    from skillwire.client.skill import RemoteSkill
    from skillwire.client.sync import Client


#: Reasons for a missing key that are printed even without --show-secrets: the provider does not work as declared.
_FAULTS: Final = frozenset({"DISC_005"})
_OFFERED: Final = 9  # skills to choose from
_MARGIN: Final = 4


class Joined:
    """Prints a joined scene; ``arguments`` are those of the equivalent ``scene join``."""

    def __init__(
        self, output: Output, client: Client, result: SceneResult, *, arguments: Sequence[str], show_secrets: bool
    ) -> None:
        self._output, self._client, self._result = output, client, result
        self._arguments, self._show_secrets = arguments, show_secrets

    def show(self, *, follow: bool) -> None:
        """Print the provider's connection, and, to ``follow``, changes until Ctrl-C."""
        output, result = self._output, self._result
        joined: JoinedScene = {
            "scene": result.scene,
            "group_id": result.group_id,
            "skill_id": result.skill_id,
            "version": result.version,
            "capabilities": list(result.capabilities),
            "connection_info": dict(result.connection_info),
            "members": result.members,
            "no_key": result.no_key,
            "rungs": self._client.rungs,
        }
        if follow and output.as_json:
            print_event({"schema": "skillwire/scene-event/1", "event": "joined", **joined})
        else:
            output.document({"schema": "skillwire/scene/1", **joined})
            self._print()
        if not follow:
            return
        changes = self._client.lan.listen()
        output.note(dim("following changes; Ctrl-C leaves the group"))
        try:
            for change in changes:
                if self._concerns_scene(change):
                    self._print_change(change)
        except BaseException as end:
            if isinstance(end, Exception):
                raise
            print_end(f"left {result.scene}")
            if not isinstance(end, KeyboardInterrupt):  # another signal ends the command, which prints it
                raise

    def _print(self) -> None:
        output, result = self._output, self._result
        output.line(success("joined "), bold(result.scene), dim(f"  {result.group_id}"))
        output.table([member.role, member.skill_id, dim(member.agent_id)] for member in result.members)
        output.line()
        rows = [("provider", f"{result.skill_id} {result.version}"), ("can do", ", ".join(result.capabilities))]
        for key, value in result.connection_info.items():
            rows.append((key, "..." if value and key in SECRET_KEYS and not self._show_secrets else str(value)))
        output.table([dim(label), value] for label, value in rows if value)
        if not SECRET_KEYS.isdisjoint(result.connection_info):
            if not self._show_secrets:
                output.hint("with its key:", f"skillwire scene join {' '.join(self._arguments)} --show-secrets")
        elif result.no_key is not None and (self._show_secrets or result.no_key.code in _FAULTS):
            output.finding(result.no_key)
        elif self._show_secrets:
            output.note(warning("no key: "), "the provider issues none")

    def _concerns_scene(self, change: LanChange) -> bool:
        scene = self._result.scene
        has_skill = change.skill is not None and scene in change.skill.scenes
        return change.kind == "missed" or has_skill or (change.scene is not None and change.scene.name == scene)

    def _print_change(self, change: LanChange) -> None:
        output, skill, scene = self._output, change.skill, change.scene
        at = dim(f"{datetime.fromtimestamp(change.at).astimezone():%H:%M:%S}  ")
        if output.as_json:
            print_event({
                "schema": "skillwire/scene-event/1", "event": change.kind, "at": change.at, "reason": change.reason,
                "skill": None if skill is None else lan_object(skill),
                "scene": None if scene is None else scene_object(scene),
            })  # fmt: skip
        elif scene is not None:
            first = next((member for member in scene.members if member.role == "PRIMARY"), None)
            backups = sum(member.role == "BACKUP" for member in scene.members)
            if first is None:
                output.line(at, failure("no provider"))
            else:
                output.line(at, bold("PRIMARY "), first.skill_id, dim(f" of {first.agent_id}; {backups} BACKUP"))
        elif skill is not None:
            status = (success if skill.status == "HEALTHY" else warning)(skill.status)
            where = dim(f"  {skill.agent_id} at {skill.endpoint}")
            why = dim(f"  {change.reason}" if change.reason else "")
            output.line(at, f"{change.kind} ", bold(skill.skill_id), " ", status, where, why)
        else:
            output.line(at, warning("some changes were missed"))


class Substitute:
    """Finds, installs and provides a skill for a scene without a provider, as ``add`` and ``serve --lan`` do.

    Spec: SDP §4.2.
    """

    def __init__(self, output: Output, client: Client, scene: str, capabilities: tuple[str, ...]) -> None:
        self._output, self._client = output, client
        self._scene, self._capabilities = scene, capabilities
        self._rungs = client.rungs

    def find(self, origins: Sequence[str], missing: SkillwireError) -> list[RemoteSkill]:
        """Return the skills of SkillCenter and sources, those that declare the scene first; else raise ``missing``."""
        words = " ".join((self._scene, *self._capabilities))
        self._output.note(dim("searching the SkillCenter and the sources for "), words)
        with self._output.progress.during("reading"):
            found = self._client.lan.scene_skills(self._scene, self._capabilities, origins, self._rungs)
        self._rungs = self._client.rungs
        missing.details = {**missing.details, "rungs": self._rungs}
        if all(rung.outcome == "off" or rung.name in {LAN, CACHE} for rung in self._rungs):
            missing.fix = "Name an origin with --from ORIGIN, set registry or sources, or start a provider."
            raise missing
        if not found:
            tried = ", ".join(str(rung) for rung in self._rungs if rung.attempts)
            missing.message = f"{missing.message}; tried: {tried}"
            missing.fix = "No source has an installable skill either. Search another origin with --from ORIGIN."
            raise missing
        return found

    def _why(self, skill: RemoteSkill) -> str:
        if self._scene not in skill.ref.scenes:
            return "matches the words, but does not declare the scene"
        lacking = [able for able in self._capabilities if able not in skill.ref.capabilities]
        return f"declares {self._scene}" + (f", without {', '.join(lacking)}" if lacking else "")

    def choose(self, found: Sequence[RemoteSkill], name: str | None, *, agreed: bool) -> RemoteSkill:
        """Return the skill called ``name``, the first one if ``agreed``, or the one that the user chooses.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, no skill has the name. UsageError: ``USAGE``, nothing was chosen.
        """
        offered = found[:_OFFERED]
        names = ", ".join(skill.name for skill in offered)
        if name is not None:
            for skill in found:
                if name in {skill.name, reference_to(skill.ref)}:
                    return skill
            message = f"{name} is not among the skills found"
            raise NotFoundError("SKILL_NOT_FOUND", message, fix=f"Name one of {names}.")
        if agreed:
            return found[0]
        if not has_terminal():
            if len(found) == 1:
                message = f"one skill can provide {self._scene}: {names}"
                raise UsageError("USAGE", message, fix="Pass --yes to install it.")
            message = f"several skills can provide {self._scene}"
            raise UsageError("USAGE", message, fix=f"Pass --skill with one of {names}, or --yes for the first.")
        for number, skill in enumerate(offered, 1):
            click.echo(folded(f"{number:>2}  {reference_to(skill.ref)}"), err=True)
            click.echo(folded(f"    {shortened(skill.description, terminal_width() - _MARGIN)}"), err=True)
            click.echo(folded(f"    {self._why(skill)}"), err=True)
        numbers = {str(number): number for number in range(len(offered) + 1)}
        chosen = ask("Number of the skill to install; 0 for none", numbers, f"a number from 0 to {len(offered)}")
        if chosen == 0:
            raise UsageError("USAGE", "no skill was chosen", fix="Inspect the skills, then run the command again.")
        return offered[chosen - 1]

    def install(self, skill: RemoteSkill, *, agreed: bool, will_provide: bool) -> Path:
        """Install a skill as ``add`` does; return its folder."""
        output, client = self._output, self._client
        reference = reference_to(skill.ref)
        output.note(dim("installing "), bold(reference), dim(f": {self._why(skill)}"))
        with output.progress.during("reading"):
            plan = client.plan(reference)
        plan = inspect(client, output, plan, consent=agreed)
        report, fields = carry_out(client, output, plan, consent=agreed, overwrite=False)
        output.document({
            "schema": "skillwire/scene-request/1", "scene": self._scene, "skill": skill.name,
            "found_by": "scene" if self._scene in skill.ref.scenes else "words", "provided": will_provide,
            "rungs": self._rungs, **fields,
        })  # fmt: skip
        if code := print_report(output, report):
            raise click.exceptions.Exit(code)
        installed = next(row for row in client.installed() if row.name == skill.name)
        return Path(client.root) / installed.placement.folders[0] / installed.name

    def provide(self, folder: Path, will_provide: bool | None, port: int) -> SceneResult | None:
        """Serve the installed skill in the scene, which creates the group, and join it; ask first by default."""
        output, scene = self._output, self._scene
        question = f"Provide {scene} to the local network with this skill, until Ctrl-C?"
        if will_provide is None and not confirm(question):
            output.hint("create the group:", f"skillwire serve {folder} --lan --scene {scene}")
            return None
        if will_provide is False:
            return None
        manifest = folder / "skill.toml"
        able = parse_manifest(manifest.read_bytes(), source=str(manifest)).capabilities if manifest.is_file() else ()
        if lacking := [capability for capability in self._capabilities if capability not in able]:
            lacks = f"{folder.name} does not declare the capabilities {', '.join(lacking)}"
            output.note(warning("requests for them get no answer: "), lacks)
        output.note(dim("creating the group of "), bold(scene))
        asked = [capability for capability in self._capabilities if capability in able]
        result = self._client.lan.provide_scene(folder, scene, asked, port=port, logs=not output.quiet)
        if not result.is_joined:
            raise not_joined(result, asked, self._client.lan.settings)
        return result


_joining_options = combine(
    click.argument("name", metavar="SCENE", callback=check_names),
    click.argument("capabilities", metavar="[CAPABILITY]...", nargs=-1, callback=check_names),
    click.option("--follow", is_flag=True, help="Stay in the group and print changes, until Ctrl-C."),
    click.option("--show-secrets", is_flag=True, help="Print the connection's key, if there is one."),
    unverified_option,
)


@click.group(cls=CommandGroup)
def command() -> None:
    """List, join and request scenes of the local network.

    A scene is a purpose, such as auth. Its group are the skills that provide it: one PRIMARY, and BACKUPs that replace
    it on failure.
    """


@command.command("list")
@output_options
def list_scenes(*, output: Output) -> None:
    """List the available scenes and their providers."""
    with open_client(output) as client, output.progress.waiting("asking the local network"):
        skills, settings = client.lan.discover(), client.lan.settings
        found = client.lan.scenes(skills)
    scenes = [scene_object(scene) for scene in found]
    output.document({"schema": "skillwire/scene-list/1", "scenes": scenes, "rungs": client.rungs})
    output.table(
        [
            *(bold(scene.name), member.role, member.skill_id, dim(member.agent_id)),
            "" if member.freshness == "live" else warning(member.freshness),
        ]
        for scene in found
        for member in scene.members
    )
    for scene in found:
        if not scene.members:
            output.line(bold(scene.name), dim("  no provider"))
    if any(skill.found_via is FoundVia.CACHE for skill in skills):
        oldest = min((skill for skill in skills if skill.found_via is FoundVia.CACHE), key=lambda skill: skill.heard)
        age = heard(oldest, time.time())
        output.note(warning("from the cache: "), f"no agent answered, so these providers may be gone; heard {age}")
    if provided := [scene for scene in found if scene.members]:
        name = provided[0].name
        is_certified = any(skill.is_verified and skill.is_usable and name in skill.scenes for skill in skills)
        flag = "" if is_certified or settings.use_unverified else " --unverified"
        output.hint("join one:", f"skillwire scene join {name}{flag}")
    elif found:
        output.hint("list all agents:", "skillwire lan")
    elif not settings.multicast:
        output.note("scenes require multicast, which the configuration disables ([discovery.udp] enabled = false)")
    else:
        output.note("no agent on the local network provides a scene")


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
    """Join SCENE at a provider that has each CAPABILITY, and print its connection.

    The command leaves the group at its end. With --follow it stays, and prints members that join, leave or change
    roles. Keys are shown as ... without --show-secrets, which also prints why there is none; the JSON document contains
    both. If the network loses a key, a note is always printed (DISC_005). Public parts work without one.
    """
    with open_client(output) as client:
        with output.progress.waiting("joining"):
            result = client.lan.request_scene(name, capabilities, join=True, use_unverified=use_unverified)
        if not result.is_joined:
            raise not_joined(result, capabilities, client.lan.settings)
        arguments = [name, *capabilities, *(["--unverified"] if use_unverified else [])]
        Joined(output, client, result, arguments=arguments, show_secrets=show_secrets).show(follow=follow)


@command.command()
@_joining_options
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Origin to search for a skill; repeatable.")
@click.option("--skill", metavar="NAME", help="Which of the found skills to install.")
@click.option("--provide/--no-provide", default=None, help="Serve the installed skill, which creates the group.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of that server; a free one by default.")
@click.option("-y", "--yes", is_flag=True, help="Install the best skill without asking, even from an unknown origin.")
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
    skill: str | None,
    provide: bool | None,
    port: int,
    yes: bool,
    for_user: bool,
) -> None:
    """Join SCENE if it has a provider; otherwise find a skill, install it, and provide the scene.

    Without a provider, the SkillCenter and the sources of the settings, or the origins of --from, are searched. You
    choose the skill on the terminal, or with --skill or --yes. It is then served on the local network (--provide),
    which creates the group. The command joins it and prints changes, until Ctrl-C. With --json these are lines behind
    the document of the installation.
    """
    with open_client(output, references=origins, for_user=for_user) as client:
        output.note(dim("asking the local network for "), bold(name))
        with output.progress.waiting("requesting"):
            result = client.lan.request_scene(name, capabilities, use_unverified=use_unverified)
        if not result.is_joined:
            missing = not_joined(result, capabilities, client.lan.settings)
            output.note(dim("not available: "), missing.message)
            substitute = Substitute(output, client, name, capabilities)
            chosen = substitute.choose(substitute.find(origins, missing), skill, agreed=yes)
            folder = substitute.install(chosen, agreed=yes, will_provide=provide is True)
            provided = substitute.provide(folder, provide, port)
            if provided is None:
                return
            result, follow, use_unverified = provided, True, True  # the server ends with the command
        arguments = [name, *capabilities, *(["--unverified"] if use_unverified else [])]
        Joined(output, client, result, arguments=arguments, show_secrets=show_secrets).show(follow=follow)
