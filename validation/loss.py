"""The loss model against real sockets: four network namespaces on wires that delay, jitter and lose.

Needs root, iproute2 and a C compiler. Prints the tables of docs/models/loss.md: `python validation/loss.py`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "testbed"))

from assay.fabric.loss.goodput import Connection, goodput_frac  # noqa: E402
from assay.fabric.loss.latency import Delays, ring_times  # noqa: E402
from cluster import Cluster, obstacle  # noqa: E402 - found through the line above

PORT, SEGMENT = 7500, 1448
#: A wire looks ten times a second for what it shall do.
SETTLED_S = 0.3
#: Linux waits this long at least before it repeats what nobody acknowledged (TCP_RTO_MIN).
RTO_MIN_S = 0.2


def ring_s(cluster: Cluster, steps: int, runs: int) -> np.ndarray:
    """Seconds of each run over all hosts, from the first start to the last end."""
    time.sleep(SETTLED_S)
    hosts = [cluster.address(name) for name in cluster.names]
    ranks = [
        subprocess.Popen(
            cluster.command(name, [sys.executable, HERE / "ring_wait.py", rank, PORT, steps, runs, *hosts]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, name in enumerate(cluster.names)
    ]
    try:
        for rank in ranks:
            if rank.stdout.readline() != "ready\n":
                raise RuntimeError("a rank did not start")
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        times = np.array(
            [[line.split() for line in rank.communicate(timeout=120)[0].splitlines()] for rank in ranks]
        )
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    began, ended = times.astype(float).transpose(2, 0, 1)
    return np.asarray(ended.max(axis=0) - began.min(axis=0))


def bulk_Bps(cluster: Cluster, sender: str, receiver: str, control: str, seconds: float) -> float:
    """Bytes a second that arrive."""
    time.sleep(SETTLED_S)
    server = cluster.start(
        receiver, [sys.executable, HERE / "bulk.py", "serve", PORT + 1], stdout=subprocess.PIPE
    )
    words = [sys.executable, HERE / "bulk.py", cluster.address(receiver), PORT + 1, seconds, control]
    try:
        server.stdout.readline()
        client = cluster.start(sender, words)
        found = float(server.stdout.readline())
        client.kill()
        client.wait()
        return found
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def rings(cluster: Cluster, runs: int = 120) -> list[tuple[str, float, float, float, float]]:
    """(case, measured and predicted median, measured and predicted 95th percentile) of rings."""
    cluster.clean()
    steps = 2 * (cluster.hosts - 1)
    clean_s = float(np.median(ring_s(cluster, steps, runs))) / steps
    rows = []
    for delay_s, jitter_s, loss in (
        (0.001, 0.002, 0.0),
        (0.002, 0.006, 0.0),
        (0.001, 0.0, 0.01),
        (0.001, 0.002, 0.003),
    ):
        for name in cluster.names:
            cluster.shape(name, delay_s=delay_s, jitter_s=jitter_s, loss_frac=loss, direction="out")
        measured = ring_s(cluster, steps, runs)
        round_trip_s = 2 * (clean_s + delay_s + jitter_s / 2)
        delays = Delays(
            base_s=clean_s + delay_s,
            jitter_s=jitter_s,
            loss_frac=loss,
            repeat_s=round_trip_s,
            timeout_s=RTO_MIN_S + round_trip_s,
        )
        predicted = ring_times(cluster.hosts, steps, delays, runs=20_000)
        case = f"delay {delay_s * 1e3:g} ms, jitter {jitter_s * 1e3:g} ms, loss {loss:g}"
        q = [float(np.quantile(values, at)) for at in (0.5, 0.95) for values in (measured, predicted)]
        rows.append((case, *q))
    return rows


def transfers(cluster: Cluster, seconds: float = 5.0) -> list[tuple[str, float, float]]:
    """(case, measured and predicted B/s) of bulk transfers in frames of one segment."""
    rows = []
    for name in cluster.names[:2]:
        cluster._on(name, "ip", "link", "set", "dev", "eth0", "gso_max_segs", "1")
    for control in ("reno", "cubic"):
        for delay_s, loss in ((0.005, 1e-3), (0.005, 3e-3), (0.01, 1e-3), (0.01, 1e-2)):
            cluster.clean()
            rate_Mbps = 300.0
            cluster.shape("h0", delay_s=delay_s, loss_frac=loss, rate_Mbps=rate_Mbps, direction="out")
            cluster.shape("h1", delay_s=delay_s, direction="out")
            measured = bulk_Bps(cluster, "h0", "h1", control, seconds)
            connection = Connection(
                repeat=control,
                rate_Bps=rate_Mbps * 1e6 / 8 * SEGMENT / 1514,
                round_trip_s=2 * delay_s + 3e-4,
                packet_bytes=SEGMENT,
            )
            # The wire draws once for every 1,448 bytes begun, so twice for a full frame with its headers.
            predicted = connection.rate_Bps * goodput_frac(connection, 1 - (1 - loss) ** 2)
            rows.append((f"{control}, round trip {2e3 * delay_s:g} ms, loss {loss:g}", measured, predicted))
    return rows


def main() -> None:
    """Print both tables with the errors of the model."""
    if reason := obstacle():
        sys.exit(reason)
    with Cluster(hosts=4) as cluster:
        print("ring of 4 ranks, 6 steps, 64 B messages, 120 runs")
        print(f"{'case':44} {'median':>9} {'model':>9} {'error':>7} {'p95':>9} {'model':>9} {'error':>7}")
        for case, m50, p50, m95, p95 in rings(cluster):
            errors = f"{p50 / m50 - 1:7.1%}", f"{p95 / m95 - 1:7.1%}"
            print(
                f"{case:44} {m50 * 1e3:7.1f}ms {p50 * 1e3:7.1f}ms {errors[0]} "
                f"{m95 * 1e3:7.1f}ms {p95 * 1e3:7.1f}ms {errors[1]}"
            )
        print("\nbulk transfer of one connection at 300 Mbit/s")
        print(f"{'case':44} {'MB/s':>9} {'model':>9} {'error':>7}")
        for case, measured, predicted in transfers(cluster):
            print(f"{case:44} {measured / 1e6:9.2f} {predicted / 1e6:9.2f} {predicted / measured - 1:7.1%}")


if __name__ == "__main__":
    main()
