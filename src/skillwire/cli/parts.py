"""A command that has commands of its own, such as ``skillwire config``."""

from __future__ import annotations

import click


class Parts(click.Group):
    """A group whose own mistyped commands are answered like those of the program."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from skillwire.cli.suggest import unknown_command  # noqa: PLC0415  # only an error needs it

            raise unknown_command(args[0], self.commands, ctx.command_path)
        return super().resolve_command(ctx, args)


class PartsOrList(Parts):
    """A group that lists when nothing else is asked of it: ``skillwire grants`` is ``skillwire grants list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what stands behind the command."""
        is_list = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["list", *args] if is_list and not ctx.resilient_parsing else args)
