"""`assay`: the group of commands, each imported when it is called, and how errors leave the program."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from typing import Any

import click

from assay import __version__
from assay.errors import EXIT_BUG, AssayError

#: Command -> module and attribute. A command's module is imported when it runs or shows its help.
COMMANDS = {
    "qualify": ("assay.app.qualify", "qualify", "Measure this machine, judge it, show it: the main job."),
    "measure": ("assay.app.measure", "measure", "Run the benchmarks only."),
    "judge": ("assay.app.judge", "judge", "Judge a recorded run, or other tools' results, again."),
    "predict": ("assay.app.predict", "predict", "How long a step or a collective takes, and why."),
    "calibrate": (
        "assay.app.calibrate",
        "calibrate",
        "Fit the model to a measured run: its factors, its fit.",
    ),
    "plan": ("assay.app.plan", "plan", "Layout, platform, size, cost, growth and risk of a training run."),
    "validate": ("assay.app.validate", "validate", "How wrong the predictor is, against measured runs."),
    "doctor": ("assay.app.doctor", "doctor", "Why is it slow, hung or broken? Logs in, causes out."),
    "watch": ("assay.app.watch", "watch", "Is it still what we qualified? Incidents as they happen."),
    "incidents": ("assay.app.incidents", "incidents", "What the watch has noticed."),
    "sla": ("assay.app.sla", "sla", "Was the promised service given? From the watch's ledger."),
    "annex": ("assay.app.annex", "annex", "What both sides sign before anything is measured."),
    "verify": ("assay.app.verify", "verify", "Is a run whole, and does it follow the annex?"),
    "catalog": ("assay.app.catalog", "catalog", "What Assay knows: devices, profiles, quantities, findings."),
}


class LazyGroup(click.Group):
    """A group that lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{attribute} is no command")
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
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="assay")
def cli() -> None:
    """Find out what a GPU cluster is really worth: claimed, predicted and measured side by side.

    Results go to stdout, progress to stderr. Exit code: 0 yes or done, 1 the answer is no, 2 wrong use or
    bad input, 3 undecided or a required criterion not measured, 70 a bug of ours.
    """


def main(args: list[str] | None = None) -> None:
    """Run a command; every error leaves here, with its exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code: Any = cli.main(args=args, prog_name="assay", standalone_mode=False)
    except AssayError as error:
        click.echo(f"assay: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("assay: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception:  # noqa: BLE001 - the last boundary: what arrives here is a bug of ours, and says so
        traceback.print_exc()
        click.echo("assay: this is a bug in assay; please report it with the lines above", err=True)
        sys.exit(EXIT_BUG)
    sys.exit(code if isinstance(code, int) else 0)


def _terminate(signum: int, frame: object) -> None:
    """A job scheduler's SIGTERM stops a run the way Ctrl-C does: what was measured is judged.

    Launchers send it more than once; only the first one counts, so that the verdict can be written.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
