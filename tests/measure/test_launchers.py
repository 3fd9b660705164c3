"""Where a process of a job finds its place and rank 0, and what a hosts file may say."""

from __future__ import annotations

import io

import pytest

from assay.errors import InputError
from assay.measure.attend import hello_of
from assay.measure.channel import Channel
from assay.measure.crew import Machine, interface_of, world_of
from assay.measure.launchers.job import first_host, job_of
from assay.measure.launchers.ssh import read_hosts
from assay.measure.remote import members_of

MASTER = {"MASTER_ADDR": "h0", "MASTER_PORT": "29500"}


def test_without_a_launcher_there_is_no_job():
    assert job_of({"HOME": "/root", "SLURM_JOB_ID": "3", "SLURM_PROCID": "0"}) is None


@pytest.mark.parametrize(
    ("env", "launcher"),
    [
        ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "1", **MASTER}, "environment"),
        (
            {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x", **MASTER},
            "torchrun",
        ),
        (
            {
                "SLURM_PROCID": "2",
                "SLURM_STEP_NUM_TASKS": "4",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_ID": "0",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_NODELIST": "n[03-04]",
            },
            "srun",
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                **MASTER,
            },
            "mpirun",
        ),
    ],
)
def test_each_launcher_tells_the_place_in_its_own_words(env, launcher):
    job = job_of(env)
    assert (job.launcher, job.rank, job.world, job.local_rank) == (launcher, 2, 4, 1)
    assert job.addresses[0] == ("n03" if launcher == "srun" else "h0")


def test_all_ranks_of_a_job_know_one_word_and_other_jobs_another():
    ranks = [job_of({"RANK": str(r), "WORLD_SIZE": "2", **MASTER}).token for r in (0, 1)]
    other = job_of({"RANK": "0", "WORLD_SIZE": "2", **MASTER, "MASTER_PORT": "29501"}).token
    assert ranks[0] == ranks[1] != other


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR"),
        ({"RANK": "2", "WORLD_SIZE": "2", **MASTER}, "RANK is 2, but WORLD_SIZE is 2"),
        ({"RANK": "x", "WORLD_SIZE": "2", **MASTER}, "'x', not a whole number"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(env, says):
    with pytest.raises(InputError, match=says):
        job_of(env)


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [("n1", "n1"), ("n[03-07,12]", "n03"), ("gpu-a[1-2]-ib,m1", "gpu-a1-ib"), ("a1,b2", "a1"), ("", "")],
)
def test_the_first_host_of_a_nodelist(nodelist, first):
    assert first_host(nodelist) == first


def test_a_hosts_file_has_names_addresses_and_comments(tmp_path):
    (tmp_path / "hosts").write_text("# rack 1\nnode1 10.0.0.1  # spare\n\nnode2\n")
    hosts = read_hosts(tmp_path / "hosts")
    assert [(host.name, host.address) for host in hosts] == [("node1", "10.0.0.1"), ("node2", "node2")]


@pytest.mark.parametrize(
    ("text", "says"), [("", "no host"), ("a\nb\na\n", "a is given twice"), ("a b c d\n", "4 words")]
)
def test_a_hosts_file_that_makes_no_sense_is_refused(tmp_path, text, says):
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(InputError, match=says):
        read_hosts(tmp_path / "hosts")


def test_a_host_shared_by_several_members_shares_its_cores():
    def machine(host, first):
        return Machine(
            host=host, ranks=1, cores=8.0, devices=("cpu",), backend="gloo", first_local_rank=first
        )

    world = world_of([([0], machine("a", 0)), ([1], machine("a", 1)), ([2], machine("b", 0))])
    assert [(s.host, s.local_rank, s.threads) for s in world.seats] == [("a", 0, 4), ("a", 1, 4), ("b", 0, 8)]
    assert world.hosts == ("a", "b")
    assert world.crowded is None


def test_an_address_has_its_interface():
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("") == "lo"


def test_machines_of_one_name_are_told_apart_by_their_addresses():
    def hello(rank, host, identity, address):
        machine = Machine(host=host, ranks=1, cores=2.0, devices=("cpu",), backend="gloo", address=address)
        return {**hello_of([rank], machine, version="1", token=""), "identity": identity}

    channel = Channel(io.BytesIO(), io.BytesIO(), lambda: None)
    members = members_of(
        [
            (channel, hello(1, "vm", "boot/2", "10.0.0.2")),
            (channel, hello(0, "vm", "boot/1", "10.0.0.1")),
            (channel, hello(2, "other", "boot/3", "10.0.0.3")),
        ]
    )
    assert [(m.ranks, m.host) for m in members] == [
        ((0,), "vm-10.0.0.1"),
        ((1,), "vm-10.0.0.2"),
        ((2,), "other"),
    ]
