"""Steps of a torch.profiler trace: one recorded here on Gloo, and one as a GPU with NCCL writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.api.tracing import predict_trace, read_trace, validate_traces
from assay.errors import InputError
from assay.formats.kineto_steps import read_steps
from assay.predict.from_trace import replay

MS = 1000.0


def kernel(name: str, start_ms: float, dur_ms: float, stream: int = 7, **args: object) -> dict[str, object]:
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start_ms * MS,
        "dur": dur_ms * MS, "args": {"stream": stream, **args},
    }  # fmt: skip


def nccl(op: str, start_ms: float, dur_ms: float, elements: int, ranks: str, **more: object):
    """An NCCL kernel with the arguments that torch 2.1 and newer write."""
    size = len(ranks.split(","))
    said = {
        "Collective name": op, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "BFloat16",
        "Group size": size, "Process Group Ranks": ranks,
    }  # fmt: skip
    return kernel(f"ncclDevKernel_{op}_RING_LL(…)", start_ms, dur_ms, 20, **(said | more))


def gpu_trace() -> dict[str, object]:
    """Two steps of 10 ms: backward with a hidden gradient all-reduce, then the optimizer."""
    events: list[dict[str, object]] = []
    for step in range(2):
        at = 10.0 * step
        events.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 5}", "pid": 1, "tid": 1,
             "ts": at * MS, "dur": 10 * MS}
        )  # fmt: skip
        events += [kernel("sm90_xmma_gemm", at, 4), kernel("flash_bwd", at + 4, 4)]
        events.append(nccl("allreduce", at + 5, 2, 2**24, "[0, 1, 2, 3, 4, 5, 6, 7]"))
        events.append(
            {"ph": "X", "cat": "gpu_user_annotation", "name": "Optimizer.step#AdamW.step", "pid": 0, "tid": 7,
             "ts": (at + 8.5) * MS, "dur": 1 * MS}
        )  # fmt: skip
        events.append(kernel("multi_tensor_apply", at + 8.5, 1))
    return {"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 8, "backend": "nccl"}}


def test_a_gpu_trace_is_kernels_gaps_and_collectives_with_their_sizes():
    steps = read_steps(gpu_trace(), "t.json")
    assert (steps.steps, steps.world) == (2, 8)
    assert steps.step_s == pytest.approx(0.010)
    assert [(c.op, c.bytes, c.ranks, c.members) for c in steps.calls] == [
        ("all_reduce", 2.0**25, 8, tuple(range(8)))
    ] * 2
    whole = replay(steps, lambda c: c.end_s - c.start_s)
    assert whole.compute_s == pytest.approx(0.018)
    assert whole.gaps_s == pytest.approx(0.002)
    assert steps.optimizer_s == pytest.approx((0.0085, 0.0185))


def test_names_of_collectives_old_and_new_are_known():
    names = {
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "all_reduce",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage)": "reduce_scatter",
        "ncclDevKernel_AllGather_RING_LL": "all_gather",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send_recv",
        "ncclDevKernel_Broadcast_RING_LL": "broadcast",
    }
    for name, op in names.items():
        trace = gpu_trace()
        trace["traceEvents"].append(kernel(name, 1, 1, 20))  # type: ignore[attr-defined]
        assert op in {c.op for c in read_steps(trace, "t.json").calls}


def test_a_truncated_list_of_ranks_is_no_list():
    trace = gpu_trace()
    ranks = "[0, 1, 2, ..., 1023]"
    trace["traceEvents"].append(nccl("allreduce", 9.6, 0.1, 64, ranks, **{"Group size": 1024}))  # type: ignore[attr-defined]
    last = read_steps(trace, "t.json").calls[1]
    assert (last.ranks, last.members) == (1024, ())


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ({"traceEvents": []}, "marks no step"),
        (
            {"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": 0, "dur": 5}]},
            "no kernel and no operator",
        ),
        ({"other": 1}, "marks no step"),
    ],
)
def test_a_trace_that_lacks_something_says_what(trace, words):
    with pytest.raises(InputError, match=words) as caught:
        read_steps(trace, "t.json")
    assert caught.value.fix


def test_a_job_of_one_node_is_predicted_on_sixteen(tmp_path: Path):
    file = tmp_path / "one_node.json"
    file.write_text(json.dumps(gpu_trace()))
    done = predict_trace(file, cluster="dgx-h100", nodes=16, global_batch=1024, seq_len=4096)
    p = done.prediction
    assert p.ranks == 128
    assert p.measured_s == pytest.approx(0.010)
    assert p.step_time_s.value >= p.measured_s
    assert done.tokens_per_s_per_gpu == pytest.approx(1024 * 4096 / p.step_time_s.value / 128)
    group = validate_traces([file], cluster="dgx-h100").groups["from trace, same size"]
    assert group.n == 1
    assert group.median_abs_error_frac < 0.05


@pytest.fixture(scope="module")
def gloo_trace(tmp_path_factory) -> Path:
    """DistributedDataParallel on one Gloo rank under torch.profiler, three steps."""
    torch = pytest.importorskip("torch", reason="optional: torch is not installed")
    from torch import distributed
    from torch.profiler import ProfilerActivity, profile, schedule

    folder = tmp_path_factory.mktemp("trace")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    try:
        layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
            on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "trace.json")),
            record_shapes=True,
        ) as profiler:
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.ones(32, 64)).square().mean().backward()
                optimizer.step()
                profiler.step()
    finally:
        distributed.destroy_process_group()
    return folder / "trace.json"


def test_a_trace_recorded_here_is_read_and_replayed_exactly(gloo_trace):
    steps = read_trace(gloo_trace)
    assert (steps.steps, steps.world, len(steps.optimizer_s)) == (3, 1, 3)
    assert {(c.op, c.bytes) for c in steps.calls} == {("all_reduce", 4.0 * (64 * 256 * 2 + 256 + 64))}
    again = replay(steps, lambda c: c.end_s - c.start_s)
    assert again.total_s == pytest.approx(steps.end_s - steps.start_s)
    done = predict_trace(gloo_trace, cluster="dgx-h100", nodes=2)
    assert done.prediction.breakdown_s["compute"] == pytest.approx(again.compute_s / 3)
    assert done.prediction.ranks == 16
