"""What a watcher knows of a job, as a text file that node_exporter's textfile collector picks up."""

from __future__ import annotations

from collections.abc import Iterator

from assay.watch.interval import Habit, best_s

#: Name, what it is, and the value from a habit; base units in names.
JOB_METRICS = (
    ("assay_job_checkpoint_interval_seconds", "How often to save for the highest availability."),
    ("assay_job_failure_interval_seconds", "Mean time between failures, or watched so far without one."),
    ("assay_job_checkpoint_save_seconds", "Median time of a save."),
    ("assay_job_restart_seconds", "Median time of a restart until the first new step."),
    ("assay_incidents_open", "Incidents that have not recovered."),
)


def textfile(habit: Habit | None, open_incidents: int) -> str:
    """The exposition text; what is not measured yet is left out, not zero."""
    return "".join(f"{line}\n" for line in _lines(habit, open_incidents))


def _lines(habit: Habit | None, open_incidents: int) -> Iterator[str]:
    values: tuple[float | None, ...] = (None, None, None, None, open_incidents)
    if habit is not None:
        values = (best_s(habit), habit.mtbf_s, habit.save_s, habit.restart_s, open_incidents)
    for (name, what), value in zip(JOB_METRICS, values, strict=True):
        if value is not None:
            yield f"# HELP {name} {what}"
            yield f"# TYPE {name} gauge"
            yield f"{name} {value:.9g}"
