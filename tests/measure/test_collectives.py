"""The collective operations, run for real over Gloo."""

import json
import stat
import sys

import pytest

from assay.codec.lines import LineDecoder
from assay.errors import MeasurementError
from assay.measure.nccl_tests import busbw
from assay.measure.operations import OPERATIONS

SHORT = {"budget_s": 0.02, "latency_iterations": 12, "latency_bytes": 4096, "sizes": [8, 65536]}
EXCHANGING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
FACTOR_OF_2 = {"all_reduce": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "all_to_all": 0.5}


def test_every_operation_by_both_recipes(run_benchmark):
    measured = run_benchmark("collectives", **SHORT)
    assert measured.outcome.whole
    for op in OPERATIONS:
        for size in (8, 65536):
            rates_are_consistent(measured, op, size)
            if op in EXCHANGING:
                aligned_calls_have_a_transfer_time_and_a_lag_per_rank(measured, op, size)
    an_operation_that_does_not_wait_for_all_has_no_aligned_time(measured)
    the_tail_has_no_p99_from_few_calls(measured)
    each_rank_tells_what_it_asked_for_and_what_was_counted(measured)


def each_rank_tells_what_it_asked_for_and_what_was_counted(measured):
    """Two ranks of one machine, whose devices its first rank counts."""
    lines = [json.dumps(line) for line in measured.lines if line["type"] == "attestation"]
    told = [LineDecoder().decode(line, file="r.jsonl", number=1) for line in lines]
    first, second = sorted(told, key=lambda one: one.rank)
    for one in (first, second):
        assert (one.benchmark, one.host, one.transport) == ("collectives", "h0", "gloo")
        assert {(c.op, c.bytes) for c in one.calls} >= {(op, 65536) for op in OPERATIONS}
        assert {(c.ranks, c.nodes, c.here) for c in one.calls} == {(2, 1, 2)}
        assert all(c.count >= 5 for c in one.calls)
        assert one.library.value.endswith("libtorch_cpu.so")
        assert one.version.value.startswith("Gloo of torch ")
        assert one.network.reason == "Gloo keeps no log of its transport"
    assert {c.over for c in first.counted} == {"netdev"}
    assert second.counted == ()


def rates_are_consistent(measured, op, size):
    recipe = {"method": "pipelined", "bytes": size, "ranks": 2, "dtype": "fp32", "transport": "gloo"}
    one = {
        name: only(measured.readings(f"collective.{op}.{name}", statistic="mean", **recipe))
        for name in ("time", "algbw", "busbw")
    }
    assert all(r["subject"] == "cluster" and r["n"] >= 5 for r in one.values())
    assert one["algbw"]["value"] == pytest.approx(size / one["time"]["value"])
    assert one["busbw"]["value"] == pytest.approx(FACTOR_OF_2.get(op, 1.0) * one["algbw"]["value"])
    shares = measured.readings(f"collective.{op}.cpu_share", **recipe)
    assert {r["subject"] for r in shares} == {"rank:0", "rank:1"}
    assert all(r["value"] > 0 for r in shares)


def aligned_calls_have_a_transfer_time_and_a_lag_per_rank(measured, op, size):
    reading = only(measured.readings(f"collective.{op}.time", method="aligned", bytes=size, statistic="p50"))
    assert 1e-7 < reading["value"] < 1
    lags = measured.readings(f"collective.{op}.arrival_lag", method="aligned", bytes=size)
    assert {r["subject"] for r in lags} == {"rank:0", "rank:1"}
    assert all(r["value"] >= 0 for r in lags)


def an_operation_that_does_not_wait_for_all_has_no_aligned_time(measured):
    for op in ("broadcast", "send_recv"):
        reading = only(measured.readings(f"collective.{op}.time", method="aligned"))
        assert "before others have entered" in reading["reason"]
        assert not measured.readings(f"collective.{op}.arrival_lag")


def the_tail_has_no_p99_from_few_calls(measured):
    of_time = measured.readings("collective.all_reduce.time", method="aligned", bytes=4096)
    tail = {r["recipe"]["statistic"]: r for r in of_time}
    assert tail["p99"]["reason"] == "p99 needs 300 calls; there were 12"
    assert tail["p50"]["samples"]["count"] == 12
    assert tail["p50"]["value"] <= tail["p95"]["value"] <= tail["max"]["value"]


def only(readings):
    (reading,) = readings
    return reading


def test_a_rank_that_enters_late_has_the_lag_and_not_the_transfer(run_benchmark, tmp_path):
    only_one = {"sizes": [], "latency_bytes": 65536, "latency_iterations": 7, "budget_s": 0.02}
    measured = run_benchmark("collectives", ops=["all_reduce"], worker=late_rank_1(tmp_path), **only_one)
    lag_s = {
        r["subject"]: r["value"]
        for r in measured.readings("collective.all_reduce.arrival_lag", bytes=65536, method="aligned")
    }
    assert lag_s["rank:1"] > 0.02 > lag_s["rank:0"]
    aligned = only(measured.readings("collective.all_reduce.time", method="aligned", statistic="p50"))
    assert aligned["value"] < 0.02


def late_rank_1(folder):
    """Workers of which rank 1 pauses for 30 ms after each barrier."""
    late = folder / "late_worker.py"
    late.write_text(
        "import sys, time\n"
        "from assay.measure import context, worker\n"
        "barrier = context.Context.barrier\n"
        "if sys.argv[2] == '1':\n"
        "    context.Context.barrier = lambda self: (barrier(self), time.sleep(0.03))\n"
        "sys.exit(worker.main(sys.argv[1:3]))\n"
    )
    return (sys.executable, str(late))


def test_300_calls_have_a_p99(run_benchmark):
    many = run_benchmark(
        "collectives", ops=["all_reduce"], **(SHORT | {"sizes": [], "latency_iterations": 300})
    )
    tail = {
        r["recipe"]["statistic"]: r
        for r in many.readings("collective.all_reduce.time", method="aligned", bytes=4096)
    }
    assert tail["p95"]["value"] <= tail["p99"]["value"] <= tail["max"]["value"]


def test_sizes_that_cannot_be_are_not_measured_with_the_reason(run_benchmark):
    measured = run_benchmark(
        "collectives", ranks=3, cores=4, ops=["all_gather"], **(SHORT | {"sizes": [8, 2**50, 3072]})
    )
    assert measured.outcome.whole
    reasons = {
        r["recipe"]["bytes"]: r["reason"]
        for r in measured.readings("collective.all_gather.busbw")
        if r["value"] is None
    }
    assert reasons[8] == "8 B cannot be cut into 3 equal blocks of fp32"
    assert "GB are free" in reasons[2**50]
    assert measured.readings("collective.all_gather.busbw", bytes=3072, method="pipelined")[0]["value"]


def test_an_operation_that_the_backend_lacks_is_not_measured_and_the_others_are(run_benchmark, tmp_path):
    lacking = tmp_path / "lacking_worker.py"
    lacking.write_text(
        "import sys\n"
        "import torch.distributed as dist\n"
        "from assay.measure import worker\n"
        "def lacks(*args): raise RuntimeError('ProcessGroupGloo does not support it')\n"
        "dist.reduce_scatter_tensor = dist.reduce_scatter_single = lacks\n"
        "sys.exit(worker.main(sys.argv[1:3]))\n"
    )
    measured = run_benchmark(
        "collectives", ops=["reduce_scatter", "broadcast"], worker=(sys.executable, str(lacking)), **SHORT
    )
    assert measured.outcome.whole
    reasons = {r["reason"] for r in measured.readings("collective.reduce_scatter.time")}
    assert reasons == {"gloo cannot do reduce_scatter: ProcessGroupGloo does not support it"}
    assert measured.readings("collective.broadcast.time", method="pipelined")[0]["value"]


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter", "send_recv"])
def test_a_wrong_result_on_one_rank_is_not_measured_on_any(run_benchmark, op):
    measured = run_benchmark("collectives", corrupt=True, ops=[op], **(SHORT | {"latency_op": op}))
    assert not measured.valued()
    assert measured.outcome.failed == (0, 1)
    assert f"{op} of 8 B gave a wrong result (on rank 1)" in measured.reasons()


def test_one_rank_has_no_collectives(run_benchmark):
    measured = run_benchmark("collectives", ranks=1, **SHORT)
    assert not measured.valued()
    assert measured.reasons() == {"one rank has nobody to talk to"}


def test_crowded_ranks_have_no_times_but_lags(run_benchmark):
    measured = run_benchmark("collectives", cores=1, ops=["all_reduce"], **SHORT)
    assert {r["value"] for r in measured.readings("collective.all_reduce.busbw")} == {None}
    assert all(r["value"] >= 0 for r in measured.readings("collective.all_reduce.arrival_lag"))


# The form is that of nccl-tests 2.13; the numbers are made up.
NCCL_TESTS = """\
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 1048576(bytes) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   1 on node07 device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1 on node07 device  1 [0x43] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#     size       count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   1048576      262144   float     sum      -1    20.00   52.43   52.43      0    10.00  104.86  104.86      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 78.645
#
"""


def program(folder, text, code=0):
    (folder / "text").write_text(text)
    path = folder / "all_reduce_perf"
    path.write_text(f"#!/bin/sh\ncat {folder}/text\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_nccl_tests_result_is_the_placement_that_torch_has(tmp_path):
    command = program(tmp_path, NCCL_TESTS)
    assert busbw(command, "all_reduce", 2**20, 2, timeout_s=10)[0] == pytest.approx(104.86e9)


def test_nccl_tests_that_fail_or_count_wrong_values_give_no_result(tmp_path):
    wrong = NCCL_TESTS.replace("values : 0 OK", "values : 3 FAILED")
    with pytest.raises(MeasurementError, match="3 values wrong"):
        busbw(program(tmp_path, wrong), "all_reduce", 2**20, 2, timeout_s=10)
    with pytest.raises(MeasurementError, match="ended with 2"):
        busbw(program(tmp_path, "node07: Test NCCL failure", 2), "all_reduce", 2**20, 2, timeout_s=10)
