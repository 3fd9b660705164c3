"""`assay calibrate`: a run's readings as factors of the model, and the cluster that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.api.clusters import find_cluster
from assay.api.importing import read_results
from assay.codec.cluster import write_calibrated
from assay.codec.text_file import read_text, write_text
from assay.domain.cluster import Cluster
from assay.domain.reading import Reading
from assay.errors import InputError
from assay.predict.calibrate import Fit
from assay.predict.calibrate import calibrate as fit_factors
from assay.predict.inputs import Input, inputs_of
from assay.predict.run_cluster import RunCluster, device_id, run_cluster
from assay.store.run import HASHES, Run, check_seal, open_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The fit, and the measured cluster; `base` is the system whose datasheets stand behind it, if any."""

    cluster: Cluster
    fit: Fit
    base: str | None
    assumed: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The figures of the measured cluster, each with its origin."""
        return inputs_of(self.cluster, "bf16")


def calibrate(paths: Sequence[Path], *, base: str | None = None, collective: str | None = None) -> Calibrated:
    """Fit the model to a run (its machines' folders), or to files of other tools, on the system `base`.

    `collective` names what an nccl-tests file does not say itself.
    """
    folders = [path for path in paths if path.is_dir()]
    if folders and len(folders) < len(paths):
        raise InputError("give the folders of one run, or any number of result files, but not both")
    system = None if base is None else find_cluster(base, nodes=1).cluster
    if folders:
        run = open_runs(folders)
        found = _of_run(run, system)
        return _fitted(found, run.readings, source=_named(run), base=base)
    if system is None:
        raise InputError(
            "result files do not say which machine they are of", fix="name it, for example --base dgx-h100"
        )
    results = [read_results(path, collective=collective, restart=at) for at, path in enumerate(paths)]
    ranks = max(result.ranks for result in results)
    nodes = -(-ranks // (len(system.node.gpus) * system.domain_nodes)) * system.domain_nodes
    own = replace(system, id=f"{system.id}-measured", name=f"{system.name}, as measured", count=nodes)
    readings = [reading for result in results for reading in result.readings]
    found = RunCluster(cluster=own, datasheet=True, assumed=())
    return _fitted(found, readings, source=", ".join(map(str, paths)), base=base)


def write_cluster_file(done: Calibrated, path: Path) -> None:
    """The calibrated cluster as a file that `assay predict --cluster` accepts."""
    text = write_calibrated(done.cluster, base=done.base)
    if done.base is not None and Path(done.base).is_file():
        # A user's own file stays what it is; the calibration is added to it.
        calibration = text[text.index("\ncalibration:") :]
        text = read_text(Path(done.base)).rstrip() + calibration
    write_text(path, text, fix="give another file with --out")


def _of_run(run: Run, base: Cluster | None) -> RunCluster:
    manifest = run.manifest
    return run_cluster(
        id=device_id(f"run-{manifest.run}"),
        hosts=len(manifest.hosts) or 1,
        ranks=manifest.ranks,
        facts=run.facts,
        readings=run.readings,
        base=base,
    )


def _fitted(found: RunCluster, readings: Sequence[Reading], *, source: str, base: str | None) -> Calibrated:
    fit = fit_factors(readings, found.cluster, source=source, datasheet=found.datasheet)
    return Calibrated(
        cluster=replace(found.cluster, calibration=fit.calibration),
        fit=fit,
        base=base or found.base,
        assumed=found.assumed,
    )


def _named(run: Run) -> str:
    """The run's id and, where it is sealed, the start of its hash."""
    sealed = (run.path / HASHES).exists()
    return f"run {run.manifest.run}" + (f" ({check_seal(run.path)[:12]})" if sealed else "")
