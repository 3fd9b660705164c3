"""The launch examples as they stand, each over hosts of the namespace cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_job import SOURCE, clocks
from ruamel.yaml import YAML

LAUNCH = Path(__file__).parents[2] / "examples" / "launch"
CLOCKS = "--suite quick --restarts 1 --only clock --json"
SOUND = {"rank:1": "sound"}


@pytest.fixture
def here() -> dict[str, str]:
    """The environment of the examples, in which `python` is this one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(SOURCE), "GPUS": "1"}


def test_the_kubernetes_job_is_whole() -> None:
    service, job = YAML(typ="safe").load_all((LAUNCH / "kubernetes.yaml").read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(told["NODES"])
    assert container["resources"]["limits"]["nvidia.com/gpu"] == int(told["GPUS"])
    name = service["metadata"]["name"]
    assert pod["subdomain"] == name
    assert told["MASTER"] == f"{job['metadata']['name']}-0.{name}"
    mounts = {one["name"] for one in container["volumeMounts"]}
    assert mounts == {one["name"] for one in pod["volumes"]}


def test_the_command_of_the_kubernetes_job_ends_with_a_verdict(namespace_cluster, tmp_path, here):
    cluster = namespace_cluster
    _, job = YAML(typ="safe").load_all((LAUNCH / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container["env"]} | here
    env |= {"MASTER": cluster.address("h0"), "ASSAY": CLOCKS}
    pods = []
    for index in range(2):
        own = {"JOB_COMPLETION_INDEX": str(index), "OUT": str(tmp_path / f"disk{index}" / "run")}
        with (tmp_path / f"out{index}").open("w") as out, (tmp_path / f"err{index}").open("w") as err:
            pods.append(
                cluster.start(f"h{index}", container["command"], env=env | own, stdout=out, stderr=err)
            )
    ends = [pod.wait(timeout=150) for pod in pods]
    assert ends == [0, 0], (tmp_path / "err0").read_text()
    assert clocks(json.loads((tmp_path / "out0").read_text())) == SOUND


@pytest.mark.cluster
def test_the_torchrun_example_ends_with_a_verdict(namespace_cluster, tmp_path, here):
    cluster = namespace_cluster
    nodes = []
    for rank in range(2):
        words = [LAUNCH / "torchrun.sh", 2, rank, cluster.address("h0"), *CLOCKS.split()]
        out = tmp_path / f"disk{rank}" / "run"
        with (tmp_path / f"out{rank}").open("w") as told, (tmp_path / f"err{rank}").open("w") as err:
            command = [*words, "--out", out]
            nodes.append(cluster.start(f"h{rank}", command, env=here, stdout=told, stderr=err))
    assert [node.wait(timeout=150) for node in nodes] == [0, 0], (tmp_path / "err0").read_text()
    assert clocks(json.loads((tmp_path / "out0").read_text())) == SOUND


@pytest.mark.parametrize("script", ["slurm.sbatch", "torchrun.sh", "mpirun.sh"])
def test_the_scripts_are_well_formed(script: str) -> None:
    done = subprocess.run(["bash", "-n", LAUNCH / script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
