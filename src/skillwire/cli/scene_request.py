"""A scene that nobody on the network provides: found elsewhere, chosen by the user, installed, and provided.

Each step is told before it is done, and none is skipped: what is installed is checked and locked as with ``add``, and
what is offered to the network is served as with ``serve --lan``. Spec: SDP §4.2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.add import carry_out
from skillwire.cli.client_options import confirm, shortened, terminal_width
from skillwire.cli.output import doubtful, faint, folded, strong
from skillwire.errors import NotFoundError, SkillwireError, UsageError
from skillwire.resolver.reference import reference_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Output
    from skillwire.cli.progress import Progress
    from skillwire.client.synchronous import Client, RemoteSkill

_OFFERED: Final = 9  # skills to choose from
_MARGIN: Final = 4


class Elsewhere:
    """The steps, for one scene and the capabilities that its provider has to have."""

    def __init__(
        self, output: Output, progress: Progress, client: Client, scene: str, capabilities: tuple[str, ...]
    ) -> None:
        self._output, self._progress, self._client = output, progress, client
        self._scene, self._capabilities = scene, capabilities

    def find(self, origins: Sequence[str], missing: SkillwireError) -> list[RemoteSkill]:
        """Return skills of the sources that may do it.

        Those that say that they take part in the scene come first, the most able before the others; then those that the
        words of scene and capabilities find.

        Raises:
            SkillwireError: ``missing``, when there is no place to look, or nothing there.
        """
        self._output.note(faint("looking elsewhere for "), " ".join((self._scene, *self._capabilities)))
        try:
            with self._progress.during("reading"):
                of_scene = [skill for skill, _ in self._client.find("", origins) if self._says_so(skill)]
                words = " ".join((self._scene, *self._capabilities))
                by_words = [skill for skill, _ in self._client.find(words, origins)]
        except UsageError as error:
            if error.code != "NO_SOURCES":
                raise
            missing.fix = "Name a place to look in with --from ORIGIN, or set sources; or start who provides it."
            raise missing from None
        of_scene.sort(key=lambda skill: -sum(able in skill.ref.capabilities for able in self._capabilities))
        said = {reference_to(skill.ref) for skill in of_scene}
        others = [skill for skill in by_words if reference_to(skill.ref) not in said]
        found = [skill for skill in (*of_scene, *others) if not skill.ref.has_no_artifact]
        if not found:
            missing.fix = (
                "No source has a skill that could be installed for it either. Look in another with --from ORIGIN."
            )
            raise missing
        return found

    def _says_so(self, skill: RemoteSkill) -> bool:
        """Whether the index or the folder of a skill says that it takes part in the scene."""
        return self._scene in skill.ref.scenes

    def why(self, skill: RemoteSkill) -> str:
        """Return why a skill may provide the scene, in a few words."""
        if not self._says_so(skill):
            return "by its words alone; it does not say that it takes part in the scene"
        lacking = [able for able in self._capabilities if able not in skill.ref.capabilities]
        return f"takes part in {self._scene}" + (f", without {', '.join(lacking)}" if lacking else "")

    def choose(self, found: Sequence[RemoteSkill], wanted: str | None, *, agreed: bool) -> RemoteSkill:
        """Return the skill that the user wants.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND``, none is of the name that was given.
            UsageError: ``USAGE``, nobody can be asked; or nothing was chosen.
        """
        if wanted is not None:
            for skill in found:
                if wanted in {skill.name, reference_to(skill.ref)}:
                    return skill
            names = ", ".join(skill.name for skill in found[:_OFFERED])
            message = f"{wanted} is none of the skills that were found"
            raise NotFoundError("SKILL_NOT_FOUND", message, fix=f"Name one of {names}.")
        if agreed:
            return found[0]
        offered = found[:_OFFERED]
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            names = ", ".join(skill.name for skill in offered)
            message = f"which skill is to provide {self._scene} is yours to say"
            raise UsageError("USAGE", message, fix=f"Give --skill with one of {names}; or --yes for the first.")
        room = terminal_width() - _MARGIN
        for number, skill in enumerate(offered, 1):
            click.echo(folded(f"{number:>2}  {reference_to(skill.ref)}"), err=True)
            click.echo(folded(f"    {shortened(skill.description, room)}"), err=True)
            click.echo(folded(f"    {self.why(skill)}"), err=True)
        chosen = click.prompt(
            "Which one shall be installed? 0 for none", type=click.IntRange(0, len(offered)), default=0, err=True
        )
        if chosen == 0:
            raise UsageError("USAGE", "nothing was chosen", fix="Run it again when you have looked at them.")
        return offered[chosen - 1]

    def install(self, skill: RemoteSkill, *, agreed: bool, will_provide: bool) -> Path:
        """Install a skill as ``add`` does; return its folder."""
        reference = reference_to(skill.ref)
        self._output.note(faint("installing "), strong(reference), faint(f": {self.why(skill)}"))
        with self._progress.during("reading"):
            plan = self._client.plan(reference)
        found_by = "scene" if self._says_so(skill) else "words"
        more = {"scene": self._scene, "skill": skill.name, "found_by": found_by, "provided": will_provide}
        code = carry_out(
            self._client,
            self._output,
            self._progress,
            plan,
            consent=agreed,
            overwrite=False,
            document=("scene-request/1", more),
        )
        if code:
            raise click.exceptions.Exit(code)
        installed = next(row for row in self._client.installed() if row.name == skill.name)
        return Path(self._client.root) / installed.placement.folders[0] / installed.name

    def provide(self, folder: Path, wanted: bool | None, port: int) -> None:
        """Serve the installed skill in the scene, which creates the group; ask first unless that is said."""
        question = f"Provide {self._scene} to the local network with it, until Ctrl-C?"
        if wanted is None and not confirm(question):
            command = f"skillwire serve {folder} --lan --scene {self._scene}"
            self._output.hint("create the group:", command)
            return
        if wanted is False:
            return
        self._check_able(folder)
        self._output.note(faint("creating the group of "), strong(self._scene))
        from skillwire.cli.serve import command as serve  # noqa: PLC0415  # takes a while to import

        # Beside a JSON document of what was installed nothing else stands on standard output.
        quiet = self._output.quiet or self._output.as_json
        click.get_current_context().invoke(
            serve, folders=(str(folder),), lan=True, scenes=(self._scene,), port=port, quiet=quiet
        )

    def _check_able(self, folder: Path) -> None:
        """Tell which of the capabilities that were asked for the skill does not say that it has."""
        from skillwire.folder.manifest import parse_manifest  # noqa: PLC0415  # only to provide

        manifest = folder / "skill.toml"
        able = parse_manifest(manifest.read_bytes(), source=str(manifest)).capabilities if manifest.is_file() else ()
        lacking = [capability for capability in self._capabilities if capability not in able]
        if lacking:
            told = f"{folder.name} does not say that it can do {', '.join(lacking)}"
            self._output.note(doubtful("who asks for that is not answered: "), told)
