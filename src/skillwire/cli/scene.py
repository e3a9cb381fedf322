"""``skillwire scene``: list, join and request scenes of the local network. Spec: SDP §4.

A scene is a purpose, such as ``auth``, that a group of skills provides. A scene without a provider can be requested:
a skill is found in the sources, installed after confirmation, and served on the network, which creates the group.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skillwire.cli.add import carry_out
from skillwire.cli.lan_view import check_names, lan_object, members_object, scene_object, unverified_option
from skillwire.cli.options import (
    CommandGroup,
    confirm,
    open_client,
    open_progress,
    scope_option,
    shortened,
    terminal_width,
)
from skillwire.cli.output import (
    bold,
    dim,
    encode_document,
    failure,
    finding_object,
    folded,
    output_options,
    print_end,
    success,
    warning,
)
from skillwire.cli.serve import command as serve
from skillwire.errors import NotFoundError, SkillwireError, UsageError
from skillwire.folder.manifest import parse_manifest
from skillwire.model.lan import SECRET_KEYS
from skillwire.resolver.references import reference_to
from skillwire.resolver.sources.lan import no_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.cli.documents_lan import JoinedScene
    from skillwire.cli.output import Output, Part
    from skillwire.cli.progress import Progress
    from skillwire.client.skill import RemoteSkill
    from skillwire.client.sync import Client
    from skillwire.model.lan import LanChange, LanNotice, SceneResult
    from skillwire.protocols.skill_discovery.settings import LanSettings


#: Reasons for a missing key that are printed even without --show-secrets: the provider does not work as declared.
_FAULTS: Final = frozenset({"DISC_005"})
_OFFERED: Final = 9  # skills to choose from
_MARGIN: Final = 4


def not_there(result: SceneResult, capabilities: Sequence[str], settings: LanSettings) -> SkillwireError:
    """Return the error for a scene that was not joined."""
    if result.is_missing:
        what = "capability" if len(capabilities) == 1 else "capabilities"
        able = f" with the {what} {' and '.join(capabilities)}" if capabilities else ""
        return NotFoundError("DISC_007", f"no agent on the local network provides the scene {result.scene}{able}")
    return no_answer(settings, result.scene)


class Joined:
    """Prints a joined scene.

    Args:
        output: of the command.
        client: that joined.
        result: of joining.
        words: the arguments of the equivalent ``scene join``.
        show_secrets: whether keys are printed.
    """

    def __init__(
        self, output: Output, client: Client, result: SceneResult, *, words: Sequence[str], show_secrets: bool
    ) -> None:
        self._output, self._client, self._result = output, client, result
        self._words = words
        self._show_secrets = show_secrets

    def show(self, *, follow: bool) -> None:
        """Print the provider's connection, and, to ``follow``, changes until Ctrl-C."""
        result = self._result
        joined: JoinedScene = {
            "scene": result.scene,
            "group_id": result.group_id,
            "skill_id": result.skill_id,
            "version": result.version,
            "capabilities": list(result.capabilities),
            "connection_info": dict(result.connection_info),
            "members": members_object(result.members),
            "no_key": None if result.no_key is None else finding_object(result.no_key),
        }
        if follow and self._output.as_json:
            _print_event({"event": "joined", **joined})
        else:
            self._output.document({"schema": "skillwire/scene/1", **joined})
            self._print()
        if follow:
            self._follow()

    def _print(self) -> None:
        output, result = self._output, self._result
        output.line(success("joined "), bold(result.scene), dim(f"  {result.group_id}"))
        output.table([member.role, member.skill_id, dim(member.agent_id)] for member in result.members)
        output.line()
        rows = [("provider", f"{result.skill_id} {result.version}"), ("can do", ", ".join(result.capabilities))]
        rows += [(key, self._shown(key, value)) for key, value in result.connection_info.items() if value != ""]
        output.table([dim(label), value] for label, value in rows if value)
        if not SECRET_KEYS.isdisjoint(result.connection_info):
            if not self._show_secrets:
                output.hint("with its key:", f"skillwire scene join {' '.join(self._words)} --show-secrets")
        elif result.no_key is not None and (self._show_secrets or result.no_key.code in _FAULTS):
            output.finding(result.no_key)
        elif self._show_secrets:
            output.note(warning("no key: "), "the provider issues none")

    def _shown(self, key: str, value: str | int) -> str:
        return "..." if key in SECRET_KEYS and not self._show_secrets else str(value)

    def _follow(self) -> None:
        self._output.note(dim("following changes; Ctrl-C leaves the group"))
        try:
            for change in self._client.lan.listen():
                if self._is_ours(change):
                    self._print_change(change)
        except BaseException as end:
            if isinstance(end, Exception):
                raise
            print_end(f"left {self._result.scene}")
            if not isinstance(end, KeyboardInterrupt):  # another signal ends the command, which says so
                raise

    def _is_ours(self, change: LanChange) -> bool:
        if change.kind == "missed":
            return True
        scene = self._result.scene
        if change.notice is not None:
            return change.notice.scene == scene
        of_skill = change.skill is not None and scene in change.skill.scenes
        return of_skill or (change.scene is not None and change.scene.name == scene)

    def _print_change(self, change: LanChange) -> None:
        output, skill, scene = self._output, change.skill, change.scene
        at = dim(f"{datetime.fromtimestamp(change.at).astimezone():%H:%M:%S}  ")
        if output.as_json:
            _print_event(
                {
                    "event": change.kind,
                    "at": change.at,
                    "reason": change.reason,
                    "skill": None if skill is None else lan_object(skill),
                    "scene": None if scene is None else scene_object(scene),
                    "notice": None if change.notice is None else change.notice._asdict(),
                }
            )
        elif change.notice is not None:
            output.line(
                at, warning("unconfirmed: "), *_notice_text(change.notice), dim("; this machine sees another state")
            )
        elif scene is not None:
            first = next((member for member in scene.members if member.role == "PRIMARY"), None)
            backups = sum(member.role == "BACKUP" for member in scene.members)
            if first is None:
                output.line(at, failure("no provider"))
            else:
                output.line(at, bold("PRIMARY "), first.skill_id, dim(f" of {first.agent_id}; {backups} BACKUP"))
        elif skill is not None:
            style = success if skill.status == "HEALTHY" else warning
            where = dim(f"  {skill.agent_id} at {skill.endpoint}")
            why = dim(f"  {change.reason}" if change.reason else "")
            output.line(at, f"{change.kind} ", bold(skill.skill_id), " ", style(skill.status), where, why)
        else:
            output.line(at, warning("some changes were missed"))


def _notice_text(notice: LanNotice) -> tuple[Part, ...]:
    """Return an unconfirmed notice as text."""
    states = {"MEMBER_JOINED": "has joined", "MEMBER_LEFT": "has left", "PRIMARY_CHANGED": "is PRIMARY"}
    return bold(notice.skill_id), f" of {notice.agent_id} ", states.get(notice.event, f"is {notice.status}")


def _print_event(fields: dict[str, Any]) -> None:
    """Print one JSON object as a line, at once."""
    click.echo(encode_document({"schema": "skillwire/scene-event/1", **fields}, indent=None))


class Elsewhere:
    """Finds, installs and provides a skill for one scene without a provider. Spec: SDP §4.2.

    Installing works as with ``add``, and providing as with ``serve --lan``.
    """

    def __init__(
        self, output: Output, progress: Progress, client: Client, scene: str, capabilities: tuple[str, ...]
    ) -> None:
        self._output, self._progress, self._client = output, progress, client
        self._scene, self._capabilities = scene, capabilities

    def find(self, origins: Sequence[str], missing: SkillwireError) -> list[RemoteSkill]:
        """Return skills of the sources that may provide the scene.

        Skills that declare the scene come first, those with most capabilities before the others; then matches of the
        words.

        Raises:
            SkillwireError: ``missing``, when there is no source or no result.
        """
        self._output.note(dim("searching the sources for "), " ".join((self._scene, *self._capabilities)))
        try:
            with self._progress.during("reading"):
                of_scene = [skill for skill, _ in self._client.find("", origins) if self._declares_scene(skill)]
                words = " ".join((self._scene, *self._capabilities))
                by_words = [skill for skill, _ in self._client.find(words, origins)]
        except UsageError as error:
            if error.code != "NO_SOURCES":
                raise
            missing.fix = "Name an origin with --from ORIGIN, configure sources, or start a provider."
            raise missing from None
        of_scene.sort(key=lambda skill: -sum(able in skill.ref.capabilities for able in self._capabilities))
        said = {reference_to(skill.ref) for skill in of_scene}
        others = [skill for skill in by_words if reference_to(skill.ref) not in said]
        found = [skill for skill in (*of_scene, *others) if not skill.ref.has_no_artifact]
        if not found:
            missing.fix = "No source has an installable skill either. Search another origin with --from ORIGIN."
            raise missing
        return found

    def _declares_scene(self, skill: RemoteSkill) -> bool:
        """Whether the index or the folder of a skill declares the scene."""
        return self._scene in skill.ref.scenes

    def why(self, skill: RemoteSkill) -> str:
        """Return why a skill may provide the scene."""
        if not self._declares_scene(skill):
            return "matches the words, but does not declare the scene"
        lacking = [able for able in self._capabilities if able not in skill.ref.capabilities]
        return f"declares {self._scene}" + (f", without {', '.join(lacking)}" if lacking else "")

    def choose(self, found: Sequence[RemoteSkill], wanted: str | None, *, agreed: bool) -> RemoteSkill:
        """Return the skill that the user chooses.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, the given name does not match.
            UsageError: ``USAGE``, there is no terminal, or no choice.
        """
        if wanted is not None:
            for skill in found:
                if wanted in {skill.name, reference_to(skill.ref)}:
                    return skill
            names = ", ".join(skill.name for skill in found[:_OFFERED])
            message = f"{wanted} is not among the skills found"
            raise NotFoundError("SKILL_NOT_FOUND", message, fix=f"Name one of {names}.")
        if agreed:
            return found[0]
        offered = found[:_OFFERED]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            names = ", ".join(skill.name for skill in offered)
            message = f"several skills can provide {self._scene}"
            raise UsageError("USAGE", message, fix=f"Pass --skill with one of {names}, or --yes for the first.")
        room = terminal_width() - _MARGIN
        for number, skill in enumerate(offered, 1):
            click.echo(folded(f"{number:>2}  {reference_to(skill.ref)}"), err=True)
            click.echo(folded(f"    {shortened(skill.description, room)}"), err=True)
            click.echo(folded(f"    {self.why(skill)}"), err=True)
        chosen = click.prompt(
            "Number of the skill to install; 0 for none", type=click.IntRange(0, len(offered)), default=0, err=True
        )
        if chosen == 0:
            raise UsageError("USAGE", "no skill was chosen", fix="Inspect the skills, then run the command again.")
        return offered[chosen - 1]

    def install(self, skill: RemoteSkill, *, agreed: bool, will_provide: bool) -> Path:
        """Install a skill as ``add`` does; return its folder."""
        reference = reference_to(skill.ref)
        self._output.note(dim("installing "), bold(reference), dim(f": {self.why(skill)}"))
        with self._progress.during("reading"):
            plan = self._client.plan(reference)
        found_by = "scene" if self._declares_scene(skill) else "words"
        more = {"scene": self._scene, "skill": skill.name, "found_by": found_by, "provided": will_provide}
        code = carry_out(
            self._client,
            self._output,
            self._progress,
            plan,
            consent=agreed,
            overwrite=False,
            document=("skillwire/scene-request/1", more),
        )
        if code:
            raise click.exceptions.Exit(code)
        installed = next(row for row in self._client.installed() if row.name == skill.name)
        return Path(self._client.root) / installed.placement.folders[0] / installed.name

    def provide(self, folder: Path, wanted: bool | None, port: int) -> None:
        """Serve the installed skill in the scene, which creates the group; ask first by default."""
        question = f"Provide {self._scene} to the local network with this skill, until Ctrl-C?"
        if wanted is None and not confirm(question):
            command = f"skillwire serve {folder} --lan --scene {self._scene}"
            self._output.hint("create the group:", command)
            return
        if wanted is False:
            return
        self._check_able(folder)
        self._output.note(dim("creating the group of "), bold(self._scene))

        # Beside a JSON document of what was installed nothing else stands on standard output.
        quiet = self._output.quiet or self._output.as_json
        click.get_current_context().invoke(
            serve, folders=(str(folder),), lan=True, scenes=(self._scene,), port=port, quiet=quiet
        )

    def _check_able(self, folder: Path) -> None:
        """Print the requested capabilities that the skill does not declare."""
        manifest = folder / "skill.toml"
        able = parse_manifest(manifest.read_bytes(), source=str(manifest)).capabilities if manifest.is_file() else ()
        lacking = [capability for capability in self._capabilities if capability not in able]
        if lacking:
            lacks = f"{folder.name} does not declare the capabilities {', '.join(lacking)}"
            self._output.note(warning("requests for them get no answer: "), lacks)


def _joining_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of ``join`` and ``request``."""
    options = (
        click.argument("name", metavar="SCENE", callback=check_names),
        click.argument("capabilities", metavar="[CAPABILITY]...", nargs=-1, callback=check_names),
        click.option("--follow", is_flag=True, help="Stay in the group and print changes, until Ctrl-C."),
        click.option("--show-secrets", is_flag=True, help="Print the connection's key, if there is one."),
        unverified_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def _words(scene: str, capabilities: tuple[str, ...], *, use_unverified: bool | None) -> list[str]:
    """Return the arguments of the equivalent ``scene join``."""
    return [scene, *capabilities, *(["--unverified"] if use_unverified else [])]


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
    from skillwire.client.lan_flows import scenes_of  # noqa: PLC0415  # --help does without

    progress = open_progress(output)
    with open_client(output, progress=progress) as client, progress.waiting("asking the local network"):
        skills, settings = client.lan.discover(), client.lan.settings
    found = scenes_of(skills)
    output.document({"schema": "skillwire/scene-list/1", "scenes": [scene_object(scene) for scene in found]})
    output.table(
        [bold(scene.name), member.role, member.skill_id, dim(member.agent_id)]
        for scene in found
        for member in scene.members
    )
    for scene in found:
        if not scene.members:
            output.line(bold(scene.name), dim("  no provider"))
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
    roles. Keys are shown as ... without --show-secrets; the JSON document contains them. If a key cannot be fetched, a
    note is printed (DISC_005): the scene is joined, and its public parts work without the key.
    """
    progress = open_progress(output)
    with open_client(output, progress=progress) as client:
        with progress.waiting("joining"):
            result = client.lan.request_scene(name, capabilities, join=True, use_unverified=use_unverified)
        if not result.is_joined:
            raise not_there(result, capabilities, client.lan.settings)
        words = _words(name, capabilities, use_unverified=use_unverified)
        Joined(output, client, result, words=words, show_secrets=show_secrets).show(follow=follow)


@command.command()
@_joining_options
@click.option("--from", "origins", metavar="ORIGIN", multiple=True, help="Origin to search for a skill; repeatable.")
@click.option("--skill", "wanted", metavar="NAME", help="Which of the found skills to install.")
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
    wanted: str | None,
    provide: bool | None,
    port: int,
    yes: bool,
    for_user: bool,
) -> None:
    """Join SCENE if it has a provider; otherwise find a skill, install it, and provide the scene.

    Without a provider, the configured sources or those of --from are searched. You choose the skill on the terminal, or
    with --skill or --yes. The skill is then served on the local network (--provide), which creates the group, until
    Ctrl-C.
    """
    progress = open_progress(output)
    with open_client(output, references=origins, for_user=for_user, progress=progress) as client:
        output.note(dim("asking the local network for "), bold(name))
        with progress.waiting("requesting"):
            result = client.lan.request_scene(name, capabilities, use_unverified=use_unverified)
        if result.is_joined:
            words = _words(name, capabilities, use_unverified=use_unverified)
            Joined(output, client, result, words=words, show_secrets=show_secrets).show(follow=follow)
            return
        missing = not_there(result, capabilities, client.lan.settings)
        output.note(dim("not available: "), missing.message)
        elsewhere = Elsewhere(output, progress, client, name, capabilities)
        chosen = elsewhere.choose(elsewhere.find(origins, missing), wanted, agreed=yes)
        folder = elsewhere.install(chosen, agreed=yes, will_provide=provide is True)
    elsewhere.provide(folder, provide, port)
