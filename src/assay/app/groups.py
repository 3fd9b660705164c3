"""Groups of commands that are listed without being imported, and that suggest a name where none fits."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from assay.errors import did_you_mean

#: Command -> the module and the name of its function, and its line in the list.
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """A group whose commands are imported when they run or show their help.

    `otherwise` is the command that is meant where the first word is an option.
    """

    def __init__(
        self, *args: Any, lazily: Commands | None = None, otherwise: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazily = dict(lazily or {})
        self._otherwise = otherwise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which people meet them."""
        return list(self._lazily)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._lazily:
            return None
        module, attribute, _ = self._lazily[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{attribute} is no command")
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the usual command in front where none is named."""
        if self._otherwise and args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [self._otherwise, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion where there is none of that name."""
        if args and args[0] not in self._lazily and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}; {did_you_mean(args[0], self._lazily)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list with each command's line."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._lazily.items()])
