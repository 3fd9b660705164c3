"""What the watch finds, how often it errs, and what it costs.

`WATCH_FULL=1` takes two weeks instead of two days. Faults of a real job, by time, are printed by
`python -m pytest -s -m cluster tests/cluster/test_watch_faults.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from assay.codec.telemetry import encode_item
from assay.domain.samples import Samples
from assay.watch.machine import Machine
from assay.watch.order import Order
from assay.watch.rehearsal import Rehearsal, some_failures
from assay.watch.settings import Settings
from benchmarks.doctor import measured
from benchmarks.figure import Figure

TESTBED = Path(__file__).resolve().parents[1] / "tests" / "testbed"
FULL = bool(os.environ.get("WATCH_FULL"))
#: A sample a minute needs patience of minutes, where live exporters are scraped every few seconds.
SETTINGS = Settings(down_s=180, silent_least_s=600)
REPLAY = "import sys; from assay.app.watch import watch; sys.exit(watch(sys.argv[1:], standalone_mode=False))"

EXPORTER = """
import sys, time
from pathlib import Path
from assay.probe.files import Roots
from assay.watch.exporter import Exporter
from assay.watch.sources.node import NodeReader
reader = NodeReader("n1", roots=Roots.under(sys.argv[1]), nvml_library=sys.argv[2], storage=Path(sys.argv[3]))
exporter = Exporter(lambda: reader.read(time.time()), port=0)
print(exporter.port, flush=True)
exporter.serve()
"""


def run() -> list[Figure]:
    """All figures; some minutes."""
    days = 14.0 if FULL else 2.0
    return [*clean(63, days), *failing(63, days), *failing(2048, 1.0), *exporter(), *probes(), *replay()]


def clean(nodes: int, days: float) -> list[Figure]:
    """False incidents of healthy days."""
    false, _ = rehearsed(Rehearsal(nodes=nodes, days=days, seed=21))
    what = f"clean, {nodes * 8:,} GPUs, {days:g} days: incidents"
    return [Figure(what=what, value=str(len(false)), reach="1 in 14 days")]


def failing(nodes: int, days: float) -> list[Figure]:
    """Failures of GPUs that are found and named by their node, and the false incidents beside them."""
    failures = some_failures(nodes, days, seed=31)
    opened, seconds = rehearsed(Rehearsal(nodes=nodes, days=days, seed=31, failures=failures))
    hits, delays = set[str](), list[float]()
    for failure in failures:
        node = f"n{failure.gpu // 8:04d}"
        own = [(s, i) for s, i, touched in opened if node in touched and 0 <= s - failure.at_s < 6 * 3600]
        hits |= {i for _, i in own}
        delays += [min(s for s, _ in own) - failure.at_s] if own else []
    false = sum(i not in hits for _, i, _ in opened)
    size = f"{nodes * 8:,} GPUs, {days:g} days"
    return [
        Figure(what=f"failures named, {size}", value=f"{len(delays)}/{len(failures)}", reach="10/10"),
        Figure(what=f"false a day, {size}", value=f"{false / days:.2f}", reach="0.84"),
        Figure(what=f"median time to name, {size}", value=f"{sorted(delays)[len(delays) // 2]:.0f} s"),
        Figure(what=f"speed, {size}", value=f"{days * 86400 / seconds:,.0f} x"),
    ]


def rehearsed(plan: Rehearsal) -> tuple[list[tuple[float, str, tuple[str, ...]]], float]:
    """(time, id, nodes) of each incident that was opened, and the seconds that it took with the making up."""
    machine, order, opened = Machine(SETTINGS), Order(tick_s=15.0), {}
    begin_s = time.perf_counter()
    for item in plan.items():
        for one in order.push(item):
            for change in machine.feed(one):
                first = opened.get(change.incident.id, (change.time_s,))[0]
                opened[change.incident.id] = (first, change.incident.id, change.incident.nodes)
    return list(opened.values()), time.perf_counter() - begin_s


def exporter(seconds: int = 20) -> list[Figure]:
    """Processor and memory of a node's exporter with 8 GPUs and 8 ports, scraped once a second."""
    sys.path.insert(0, str(TESTBED))
    import fake_sysfs
    from compile_nvml import compile_nvml

    with tempfile.TemporaryDirectory() as folder:
        top = fake_sysfs.build(Path(folder) / "machine", adapters=8, gpus=8)
        library = compile_nvml(Path(folder))
        state = Path(folder) / "nvml.txt"
        state.write_text("-1 count 8\n")
        process = subprocess.Popen(
            [sys.executable, "-c", EXPORTER, top, library, folder],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NVML_STUB": str(state)},
        )
        try:
            port = int(process.stdout.readline()) if process.stdout else 0
            url = f"http://127.0.0.1:{port}/metrics"
            series = scrape(url)
            before = cpu_s(process.pid)
            for _ in range(seconds):
                time.sleep(1.0)
                scrape(url)
            share = (cpu_s(process.pid) - before) / seconds
            status = Path(f"/proc/{process.pid}/status").read_text()
            rss_kB = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        finally:
            process.kill()
            process.wait()
    return [
        Figure(what=f"exporter, {series} series, 1 s scrape", value=f"{share:.2%} of a core", reach="1 %"),
        Figure(what="exporter, memory", value=f"{rss_kB / 1024:.0f} MB", reach="60 MB"),
    ]


PROBES = """
import os, sys, time
from assay.watch.sources.peers import Peers
names = {f"n{i}": f"127.0.0.{i + 1}" for i in range(9)}
mine = sys.argv[1].split(",")
held = [Peers(n, names if n == "n0" else {n: names[n]}, bind=names[n], port=int(sys.argv[2])) for n in mine]
print("ready", flush=True)
sys.stdin.readline()
"""


def probes(seconds: int = 20) -> list[Figure]:
    """What probing 8 peers takes from a step: processor of the node, and bytes on its network."""
    port = "19467"
    others = subprocess.Popen([sys.executable, "-c", PROBES, ",".join(f"n{i}" for i in range(1, 9)), port],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    own = subprocess.Popen(
        [sys.executable, "-c", PROBES, "n0", port], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        for process in (others, own):
            if process.stdout:
                process.stdout.readline()
        time.sleep(2.0)
        cpu, sent = cpu_s(own.pid), loopback_bytes()
        time.sleep(seconds)
        share, sent_Bps = (cpu_s(own.pid) - cpu) / seconds, (loopback_bytes() - sent) / seconds
    finally:
        for process in (others, own):
            process.kill()
            process.wait()
    return [
        Figure(what="probes of 8 peers, of one core", value=f"{share:.2%}"),
        Figure(what="probes, of a node of 128 cores", value=f"{share / 128:.4%}", reach="0.1 %"),
        Figure(what="probes, of a port of 400 Gbit/s", value=f"{sent_Bps / 50e9:.4%}", reach="0.1 %"),
        Figure(what="probes, of a port of 10 Gbit/s", value=f"{sent_Bps / 1.25e9:.4%}", reach="0.1 %"),
    ]


def loopback_bytes() -> int:
    """Bytes that the loopback device has sent, there and back."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def scrape(url: str) -> int:
    """Read the metrics, and count the series."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return sum(not line.startswith(b"#") for line in answer)


def cpu_s(pid: int) -> float:
    """Seconds of work of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def replay(minutes: float = 30.0) -> list[Figure]:
    """1,000 nodes of 8 GPUs, a sample in 15 s, through `assay watch --replay`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.jsonl"
        plan = Rehearsal(nodes=1000, days=minutes / 1440, seed=3, every_s=15.0)
        with path.open("w") as file:
            file.writelines(line + "\n" for line in lines(plan))
        begin_s = time.perf_counter()
        told = measured([sys.executable, "-c", REPLAY, "--replay", str(path)])
        speed = minutes * 60 / (time.perf_counter() - begin_s)
        size = path.stat().st_size / 1e6
    return [
        Figure(what=f"replay, 1,000 nodes x 8, {size:.0f} MB", value=f"{speed:.0f} x", reach="100 x"),
        Figure(what="replay, time and memory", value=told, reach="1 GB"),
    ]


def lines(plan: Rehearsal) -> Iterator[str]:
    """Recorded lines, with each list of subjects named once."""
    import json

    names: dict[int, str] = {}
    for item in plan.items():
        data = encode_item(item)
        if isinstance(item, Samples):
            if id(item.subjects) not in names:
                names[id(item.subjects)] = f"list{len(names)}"
                named = {"type": "subjects", "name": names[id(item.subjects)], "subjects": data["subjects"]}
                yield json.dumps(named)
            data["subjects"] = names[id(item.subjects)]
        yield json.dumps(data)
