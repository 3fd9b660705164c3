"""What public guides to GPU clusters state, as outcomes of the model, under assumptions that are printed.

Run: python validation/guide.py. The table of docs/models/guide.md comes from here, and a test holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from assay.api.predicting import PredictOptions, predict_step
from assay.catalog.clusters import cluster
from assay.catalog.devices import gpu
from assay.domain.cluster import PcieLink
from assay.domain.fabric import Wiring
from assay.fabric.collective import collective_time
from assay.fabric.failures.impact import Conditions, impact
from assay.fabric.placement import Placement
from assay.predict.impaired import ImpairedNetwork
from assay.predict.network import LinkNetwork
from assay.predict.prediction import Prediction, predict
from assay.predict.situation import Situation

NODES = 128
#: Bytes of weights and optimizer state for a parameter: bf16 weights, fp32 master copy and two moments.
STATE_BYTES = 14.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One statement: what the model gives, what was assumed, and whether the statement follows."""

    statement: str
    assumed: str
    outcome: str
    value: float
    follows: bool


def large_job(layout: str, batch: int) -> Situation:
    """Llama 3.1 70B on 1,024 H100."""
    asked = PredictOptions(
        cluster="dgx-h100",
        nodes=NODES,
        workload="llama-3.1-70b",
        layout=layout,
        global_batch=batch,
        stack="megatron",
    )
    return predict_step(asked).prediction.situation


def slow_links() -> Outcome:
    """Between GPUs of a node less than 100 GB/s."""
    one, network = large_job("tp=8,pp=4", 1024), LinkNetwork.of(cluster("dgx-h100").of(NODES))
    whole = predict(one, network)
    slow = predict(one, replace(network, link_Bps=np.array([100e9 * 0.8])))
    lost = 1 - whole.step_time_s.value / slow.step_time_s.value
    return Outcome(
        statement="below 100 GB/s between GPUs a thousand-card run loses 40 % or more",
        assumed="Llama 3.1 70B, 1,024 H100, tp=8 inside nodes, pp=4; links of 100 GB/s against 450, at 80 %",
        outcome=f"{lost:.0%} of the throughput is lost",
        value=lost,
        follows=lost >= 0.4,
    )


def slow_links_without_tensor_parallel() -> Outcome:
    """The same cards where the layout keeps off the links."""
    one, network = large_job("tp=1,pp=8,vpp=5", 1024), LinkNetwork.of(cluster("dgx-h100").of(NODES))
    whole = predict(one, network)
    slow = predict(one, replace(network, link_Bps=np.array([100e9 * 0.8])))
    lost = 1 - whole.step_time_s.value / slow.step_time_s.value
    return Outcome(
        statement="the same, whatever the layout",
        assumed="the same job with tp=1, pp=8, vpp=5, which sends little inside nodes",
        outcome=f"{lost:.0%} of the throughput is lost",
        value=lost,
        follows=lost >= 0.4,
    )


def slow_checkpoints() -> Outcome:
    """Writing synchronous checkpoints to slow storage."""
    state = 70.6e9 * STATE_BYTES
    period_s, stalls = 900.0, {rate: state / rate for rate in (1.7e9, 50e9)}
    # 90 % is what is left after the bubble and jitter when storage costs next to nothing.
    utilisation = {rate: 0.9 * period_s / (period_s + stall) for rate, stall in stalls.items()}
    return Outcome(
        statement="slow storage takes GPU utilisation from 90 % to about 55 %",
        assumed="70.6e9 parameters × 14 B written every 15 minutes while all GPUs wait, at 1.7 "
        "against 50 GB/s",
        outcome=f"{utilisation[1.7e9]:.0%} against {utilisation[50e9]:.0%}",
        value=utilisation[1.7e9],
        follows=0.5 <= utilisation[1.7e9] <= 0.6,
    )


def slow_reading() -> Outcome:
    """Reading tokens from slow storage."""
    one = large_job("tp=8,pp=4", 1024)
    step_s = predict(one, LinkNetwork.of(cluster("dgx-h100").of(NODES))).step_time_s.value
    read_bytes = 1024 * one.workload.seq_len * 4
    needed = read_bytes / step_s
    return Outcome(
        statement="the same, from reading the training text",
        assumed="4 B a token, 1,024 sequences a step, read ahead",
        outcome=f"{needed / 1e6:.1f} MB/s of reading keep all 1,024 GPUs busy",
        value=needed,
        follows=needed > 1e9,
    )


def _fabrics(layout: str, batch: int) -> tuple[Prediction, Prediction]:
    """The step on a rail-optimised, adaptive InfiniBand fabric, and on plain ECMP Ethernet with loss."""
    one = large_job(layout, batch)
    good = predict(one, LinkNetwork.of(cluster("dgx-h100").of(NODES)))
    system = cluster("hgx-h100-roce").of(NODES)
    plain = replace(system, fabric=replace(system.fabric, wiring=Wiring.FAT_TREE))
    harm = impact(plain, Conditions.of(ecmp=True, loss=1e-4))
    return good, predict(one, ImpairedNetwork(LinkNetwork.of(plain), harm.slowdown))


def fabric_for_a_job_that_sends() -> Outcome:
    """A job whose step is bound by its traffic."""
    good, bad = _fabrics("tp=8,sharding=zero3", 256)
    gain = 1 - good.step_time_s.value / bad.step_time_s.value
    return Outcome(
        statement="an in-network, rail-optimised, adaptively routed fabric gives up to about 50 % "
        "on the step",
        assumed="Llama 3.1 70B, fully sharded, 256 sequences on 1,024 GPUs; against a plain fat tree of "
        "RoCE, one queue pair a flow, 1e-4 of packets lost, go-back-N",
        outcome=f"the step is {gain:.0%} shorter",
        value=gain,
        follows=gain >= 0.4,
    )


def fabric_for_a_job_that_computes() -> Outcome:
    """A job whose step is bound by its arithmetic."""
    good, bad = _fabrics("tp=8,pp=4", 1024)
    gain = 1 - good.step_time_s.value / bad.step_time_s.value
    return Outcome(
        statement="the same, for any job",
        assumed="the same with tp=8, pp=4 and 1,024 sequences",
        outcome=f"the step is {gain:.0%} shorter",
        value=gain,
        follows=gain >= 0.4,
    )


def nvlink_over_pcie() -> Outcome:
    """Datasheet bandwidths of one card."""
    card = gpu("h100-sxm")
    ratio = (card.links or 0) * (card.link_Bps or 0.0) / PcieLink(generation=5, lanes=16).Bps
    return Outcome(
        statement="NVLink over PCIe by orders of magnitude in bandwidth",
        assumed="H100: 18 NVLinks of 25 GB/s against PCIe 5 x16, one direction, datasheets",
        outcome=f"{ratio:.1f} times",
        value=ratio,
        follows=ratio >= 100,
    )


def nvlink_over_pcie_in_a_collective() -> Outcome:
    """What an all-reduce makes of it."""
    times = [
        float(collective_time(cluster(name), "all_reduce", 1 << 30, Placement.of(8)).time_s)
        for name in ("dgx-h100", "l40s-pcie")
    ]
    ratio = times[1] / times[0]
    return Outcome(
        statement="the same, in an all-reduce",
        assumed="1 GiB over the 8 GPUs of a DGX H100 against 8 L40S on PCIe 4 without peer access",
        outcome=f"{ratio:.0f} times",
        value=ratio,
        follows=ratio >= 10,
    )


def outcomes() -> tuple[Outcome, ...]:
    """All statements in the order of the page."""
    return (
        slow_links(),
        slow_links_without_tensor_parallel(),
        slow_checkpoints(),
        slow_reading(),
        fabric_for_a_job_that_sends(),
        fabric_for_a_job_that_computes(),
        nvlink_over_pcie(),
        nvlink_over_pcie_in_a_collective(),
    )


def main() -> None:
    """Print the table."""
    print("| statement | assumed | outcome | |\n|---|---|---|---|")
    for one in outcomes():
        word = "follows" if one.follows else "**does not follow**"
        print(f"| {one.statement} | {one.assumed} | {one.outcome} | {word} |")


if __name__ == "__main__":
    main()
