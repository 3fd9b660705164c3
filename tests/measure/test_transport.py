"""What NCCL's log tells of the way that bytes go, and what a rank writes down of it."""

from pathlib import Path

import pytest

from assay.measure.nccl_environment import LOG_FILE, log_environment, logs_registration, nccl_log
from assay.measure.transport import Log, told_of

DATA = Path(__file__).parents[1] / "doctor" / "data" / "healthy"


def healthy(name):
    return (DATA / f"{name}.txt").read_text().splitlines()


def test_a_log_of_a_network_by_plugin():
    log = Log.of(healthy("h23-nccl-efa-ok"))
    assert log.told == {
        "version": "2.18.6",
        "network": "AWS Libfabric",
        "channels": "NET/AWS Libfabric",
        "memory": "GPUDirect RDMA",
    }
    assert log.rails == {}  # libfabric's devices have no names in the log


def test_a_log_of_one_node_tells_no_way_into_card_memory():
    told = Log.of(healthy("h03-nccl-single-node-nvlink")).told
    assert "memory" not in told
    assert told["version"]
    assert told["channels"].startswith("P2P/")


def test_channels_that_go_both_ways_are_told_as_both_and_counted_by_port():
    lines = ["h0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"]
    lines += ["h0:1:1 [0] NCCL INFO Using network IB"]
    channel = "h0:1:1 [0] NCCL INFO Channel 0{}/0 : {} [{}] via NET/IB/{}{}"
    here, back = "0[0] -> 8[0]", "8[0] -> 0[0]"
    lines += [channel.format(0, here, "send", 0, "/GDRDMA"), channel.format(1, here, "send", "1(5)", "")]
    lines += [channel.format(2, here, "send", 0, "/GDRDMA"), channel.format(0, back, "receive", 1, "/GDRDMA")]
    log = Log.of(lines)
    assert log.told == {"network": "IB", "channels": "NET/IB", "memory": "GPUDirect RDMA + host memory"}
    assert log.rails == {"mlx5_0/1": 2, "mlx5_1/1": 1}
    assert Log.of([]) == Log({}, {})


def test_where_nccl_wrote_no_log_each_thing_says_so(tmp_path):
    told, _ = told_of("nccl", {LOG_FILE: str(tmp_path / "none")})
    assert {one.get("reason") for key, one in told.items() if key != "library"} == {
        "NCCL wrote no log that this rank could read"
    }


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (log_environment({}, Path("x"), every_call=True), True),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "all"}, True),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}, False),
        ({"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "REG"}, False),
        ({}, False),
    ],
)
def test_registration_is_known_only_where_the_log_would_tell_of_it(env, told):
    assert logs_registration(env) == told


def test_the_environment_logs_into_the_file_and_leaves_what_the_user_set():
    file = Path("/run/logs/x.nccl")
    quiet = log_environment({}, file, every_call=False)
    assert quiet == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", LOG_FILE: str(file)}
    assert "TUNING" in log_environment({}, file, every_call=True)["NCCL_DEBUG_SUBSYS"]
    assert "NCCL_DEBUG" not in log_environment({"NCCL_DEBUG": "WARN"}, file, every_call=False)


def test_a_log_that_is_not_there_is_none(tmp_path):
    assert nccl_log({}) is None
    assert nccl_log({LOG_FILE: str(tmp_path / "none")}) is None
    (tmp_path / "log").write_text("a\nb\n")
    assert nccl_log({LOG_FILE: str(tmp_path / "log")}) == ["a", "b"]
