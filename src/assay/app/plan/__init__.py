"""`assay plan`: which layout, which platform, how many GPUs, what it costs, how to grow, and at what risk."""

from __future__ import annotations

import importlib

import click

#: Command -> module, and the line that its help shows; each is imported when it runs.
COMMANDS = {
    "layout": ("assay.app.plan.layout", "The best parallel layouts of a job on a cluster, and their flags."),
    "compare": (
        "assay.app.plan.compare",
        "Platforms side by side for the same training run, all fees named.",
    ),
    "size": ("assay.app.plan.size", "How many GPUs of which kind meet a deadline and a budget."),
    "growth": (
        "assay.app.plan.growth",
        "From a few servers to many: fabric, materials, re-cabling, scaling.",
    ),
    "risk": ("assay.app.plan.risk", "Failures, checkpoint interval, spares, goodput, time lost."),
    "sweep": ("assay.app.plan.sweep", "A grid of clusters, workloads and layouts into CSV or Parquet."),
}


class _Lazy(click.Group):
    """A group that lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{cmd_name} is no command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion where there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from assay.errors import did_you_mean

            ctx.fail(f"no command {args[0]!r}; {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list with each command's line, still without importing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Lazy)
def plan() -> None:
    """Plan a training run: layout, platform, size, growth, risk, and grids of all of them.

    Prices are those of the shipped catalogue, dated, or of your own file; nothing is fetched.
    """
