"""`assay`: the group of commands, each imported when it is called, and how errors leave the program."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from assay import __version__
from assay.app.groups import Commands, LazyGroup
from assay.errors import EXIT_BUG, EXIT_CUT_OFF, EXIT_STOPPED, EXIT_USAGE, AssayError

COMMANDS: Commands = {
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
    "catalog": ("assay.app.catalog", "catalog", "What Assay knows: devices, clusters, models, findings, …"),
}


@click.group(
    cls=LazyGroup,
    lazily=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="assay")
def cli() -> None:
    """Find out what a GPU cluster is really worth: claimed, predicted and measured side by side.

    Results go to stdout, progress to stderr. Exit code: 0 yes or done, 1 the answer is no, 2 wrong use or
    bad input, 3 undecided or a required criterion not measured, 70 a bug of ours.
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; every error leaves here, with its exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ◆ shows ?
    sys.exit(_ended(sys.argv[1:] if args is None else list(args)))


def _ended(args: list[str]) -> int:
    """The exit code; what went wrong is on stderr by then."""
    try:
        code = _run(args)
        if sys.stdout is not None:  # closed by who called
            sys.stdout.flush()
    except AssayError as error:
        return _complain(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        fix = f"\n  fix: {error.ctx.command_path} --help" if error.ctx else ""
        return _complain(error.format_message() + fix, error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _complain("stopped", EXIT_STOPPED)
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_CUT_OFF
    except OSError as fault:
        _silence_stdout()
        return _complain(f"{fault.filename or 'the answer'}: {fault.strerror or fault}", EXIT_USAGE)
    except Exception:  # noqa: BLE001 - the last boundary: what arrives here is a bug of ours, and says so
        traceback.print_exc()
        return _complain("this is a bug in assay; please report it with the lines above", EXIT_BUG)
    return code if isinstance(code, int) else 0


def _run(args: list[str]) -> object:
    """What the command returns. Click's own `main` would take a closed pipe for the answer no."""
    if "_ASSAY_COMPLETE" in os.environ:
        return cli.main(args=args, prog_name="assay")
    try:
        with cli.make_context("assay", args) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def _complain(text: str, code: int) -> int:
    """Write an error: wrapped on a terminal, its lines whole in a log, where people search for them."""
    from assay.report.plain import wrapped

    told = f"assay: {text}"
    on_terminal = "COLUMNS" in os.environ or (sys.stderr is not None and sys.stderr.isatty())
    click.echo(wrapped(told, hang=7) if on_terminal else told, err=True)
    return code


def _silence_stdout() -> None:
    """Nobody reads it, or it cannot be written: what is left in its buffer goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _terminate(signum: int, frame: object) -> None:
    """A job scheduler's SIGTERM stops a run the way Ctrl-C does: what was measured is judged.

    Launchers send it more than once; only the first one counts, so that the verdict can be written.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
