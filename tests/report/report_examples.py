"""Two judged runs with seeded numbers: a CPU machine with two ranks, and a node of GPUs with an odd card."""

from __future__ import annotations

import numpy as np

from assay.catalog.messages import Texts
from assay.catalog.quantities import quantity
from assay.domain.attestation import TOLD, Attested, Standing, Told, Way
from assay.domain.criterion import Criterion, Op
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Assessment, Judgement, Verdict
from assay.judge.claims import shortfalls
from assay.judge.transport_results import attestation_id
from assay.report.data import ReportData, RunInfo, Series

SIZES = tuple(2**k for k in range(3, 35, 2))


class Builder:
    """Collects replicates, aggregates them as the judge does, and judges by hand."""

    def __init__(self, seed: int, restarts: int) -> None:
        self.random = np.random.default_rng(seed)
        self.restarts = restarts
        self.replicates: list[Reading] = []
        self.readings: list[Reading] = []
        self.judgements: list[Judgement] = []

    def measure(self, quantity, subject, unit, value, noise, recipe=None) -> Reading:
        recipe = recipe or Recipe()
        values = value * (1 + noise * self.random.standard_normal(self.restarts))
        for number, each in enumerate(values):
            self.replicates.append(
                Reading(
                    quantity=quantity,
                    subject=subject,
                    origin=Origin.MEASURED,
                    value=float(each),
                    unit=unit,
                    recipe=recipe,
                    replicate=number,
                    n=25,
                )
            )
        half = 2.78 * values.std(ddof=1) / np.sqrt(len(values))
        mean = float(values.mean())
        reading = Reading(
            quantity=quantity,
            subject=subject,
            origin=Origin.MEASURED,
            value=mean,
            unit=unit,
            recipe=recipe,
            low=mean - half,
            high=mean + half,
            n=self.restarts,
            source="run 20261130T091500-3f2a9c",
        )
        self.readings.append(reading)
        return reading

    def say(self, origin, quantity, subject, unit, value, recipe=None, source="promises.yaml:12") -> Reading:
        reading = Reading(
            quantity=quantity,
            subject=subject,
            origin=origin,
            value=value,
            unit=unit,
            recipe=recipe or Recipe(),
            source=source,
        )
        self.readings.append(reading)
        return reading

    def judge(self, criterion, subject, verdict, reason, measured=None, **more) -> None:
        self.judgements.append(
            Judgement(
                criterion=criterion,
                subject=subject,
                verdict=verdict,
                reason=reason,
                recipe=measured.recipe if measured else criterion.recipe,
                unit=criterion.unit,
                bound=criterion.bound,
                high=criterion.high,
                measured=measured,
                **more,
            )
        )

    def hold(self, criterion, reading, **more) -> None:
        """Judge one reading by at_least or at_most."""
        low, high, bound = reading.low, reading.high, criterion.bound
        up = criterion.op is Op.AT_LEAST
        if low <= bound <= high:
            verdict, code = Verdict.UNDECIDED, "reason.undecided.straddles"
        else:
            verdict = Verdict.PASS if (low > bound) == up else Verdict.FAIL
            code = f"reason.{verdict.value}.{criterion.op.value}"
        reason = Message.of(
            code,
            value=reading.value,
            low=low,
            high=high,
            bound=bound,
            unit=reading.unit,
            restarts=self.restarts,
            more_restarts=4,
        )
        self.judge(criterion, reading.subject, verdict, reason, reading, **more)


def gpu_node(lang: str = "en", *, gpus: int = 8) -> ReportData:
    """A node of H100s in which GPU 5 is slow and its link to GPU 2 too; most bounds are public floors."""
    b = Builder(seed=7, restarts=5)
    cards = [Subject("gpu", f"node07/{i}") for i in range(gpus)]
    gemm = Recipe.of(shape="8192x8192x8192", load="all", statistic="median", window_s=0.4, data="normal")
    rate = Criterion(
        id="gemm-bf16",
        quantity="gemm.bf16.rate",
        op=Op.AT_LEAST,
        unit="FLOP/s",
        bound=7.1e14,
        recipe=gemm,
        clause="3.1 (a)",
        source="SuperBench fleet mean × 0.95",
    )
    promised = b.say(Origin.CLAIMED, "gemm.bf16.rate", CLUSTER, "FLOP/s", 9.89e14, source="offer.yaml:4")
    for i, card in enumerate(cards):
        reading = b.measure("gemm.bf16.rate", card, "FLOP/s", 6.62e14 if i == 5 else 7.45e14, 0.003, gemm)
        b.hold(
            rate,
            reading,
            claimed=promised,
            predicted=b.say(
                Origin.PREDICTED, "gemm.bf16.rate", card, "FLOP/s", 7.5e14, gemm, "catalogue h100-sxm"
            ),
        )
    spread = Criterion(
        id="gemm-spread",
        quantity="gemm.bf16.rate",
        op=Op.SPREAD_AT_MOST,
        unit="1",
        bound=0.01,
        recipe=gemm,
        clause="3.1 (b)",
        source="rental guide",
    )
    b.judge(
        spread,
        CLUSTER,
        Verdict.FAIL,
        Message.of(
            "reason.fail.spread_at_most",
            value=0.118,
            low=0.109,
            high=0.127,
            bound=0.01,
            unit="1",
            restarts=5,
            subjects=gpus,
        ),
        Reading(
            quantity="gemm.bf16.rate",
            subject=CLUSTER,
            origin=Origin.MEASURED,
            value=0.118,
            unit="1",
            low=0.109,
            high=0.127,
            n=5,
            recipe=gemm,
        ),
    )
    for op, peak in (
        ("all_reduce", 4.8e11),
        ("all_gather", 3.6e11),
        ("reduce_scatter", 3.55e11),
        ("all_to_all", 3.4e11),
    ):
        for size in SIZES:
            recipe = Recipe.of(
                method="pipelined", bytes=size, ranks=gpus, transport="nvlink", statistic="mean"
            )
            value = peak * size / (size + 3e7) + 2e5
            b.measure(f"collective.{op}.busbw", CLUSTER, "B/s", value, 0.006, recipe)
            if op == "all_reduce":
                aligned = Recipe.of(
                    method="aligned", bytes=size, ranks=gpus, transport="nvlink", statistic="p50"
                )
                b.measure(f"collective.{op}.busbw", CLUSTER, "B/s", value * 0.9, 0.02, aligned)
    busbw = next(
        r
        for r in reversed(b.readings)
        if r.quantity == "collective.all_reduce.busbw" and r.recipe.get("method") == "pipelined"
    )
    floor = Criterion(
        id="all-reduce",
        quantity="collective.all_reduce.busbw",
        op=Op.AT_LEAST,
        unit="B/s",
        bound=4.6e11,
        recipe=Recipe.of(method="pipelined", bytes=SIZES[-1], ranks=8),
        clause="3.2",
        source="AzNHC nd96isr_h100_v5",
    )
    b.hold(
        floor,
        busbw,
        claimed=b.say(
            Origin.CLAIMED,
            busbw.quantity,
            CLUSTER,
            "B/s",
            4.5e11,
            Recipe.of(method="pipelined"),
            "offer.yaml:9",
        ),
    )
    pair = Recipe.of(bytes=2**28, transport="nvlink", statistic="median")
    for i, left in enumerate(cards):
        for j, right in enumerate(cards):
            if i != j:
                slow = {i, j} == {2, 5}
                link = Subject("link", f"{left.name}>{right.name}")
                b.measure("peer.bandwidth", link, "B/s", 9.6e10 if slow else 3.72e11, 0.004, pair)
    latency = Criterion(
        id="latency-p99",
        quantity="collective.all_reduce.time",
        op=Op.AT_MOST,
        unit="s",
        bound=4e-5,
        recipe=Recipe.of(method="aligned", bytes=8, statistic="p99"),
        source="rental guide",
    )
    p99 = b.measure(
        "collective.all_reduce.time",
        CLUSTER,
        "s",
        3.98e-5,
        0.03,
        Recipe.of(method="aligned", bytes=8, ranks=gpus, transport="nvlink", statistic="p99"),
    )
    b.hold(latency, p99)
    scaling = Criterion(
        id="scaling",
        quantity="training.scaling_efficiency",
        op=Op.AT_LEAST,
        unit="1",
        bound=0.85,
        source="rental guide",
        clause="4.2",
    )
    base = 2.1e4
    for ranks in (1, 2, 4, 8):
        recipe = Recipe.of(
            model="toy-120m", ranks=ranks, batch_per_rank=8, sequence=1024, dtype="bf16", statistic="median"
        )
        b.measure(
            "training.tokens_per_s",
            CLUSTER,
            "1/s",
            base * ranks * (1 - 0.018 * np.log2(ranks)),
            0.004,
            recipe,
        )
    efficiency = b.measure(
        "training.scaling_efficiency",
        CLUSTER,
        "1",
        0.946,
        0.004,
        Recipe.of(model="toy-120m", ranks=8, base_ranks=1, mode="weak"),
    )
    b.hold(scaling, efficiency)
    iops = Criterion(
        id="iops-4k",
        quantity="storage.random_read_4k.iops",
        op=Op.AT_LEAST,
        unit="1/s",
        bound=1e6,
        source="rental guide",
        clause="5.1",
    )
    b.judge(
        iops,
        Subject("node", "node07"),
        Verdict.NOT_MEASURED,
        Message.of("reason.not_measured.reason", text="fio is not installed (package fio)"),
    )
    price = Criterion(
        id="price",
        quantity="price.gpu_hour",
        op=Op.WITHIN,
        unit="CNY/h",
        bound=3.5,
        high=20.0,
        required=False,
        source="rental guide",
    )
    b.judge(
        price,
        CLUSTER,
        Verdict.NOT_MEASURED,
        Message.of("reason.not_measured.no_reading", quantity="price.gpu_hour"),
    )
    for i, card in enumerate(cards):
        b.measure(
            "memory.copy.bandwidth",
            card,
            "B/s",
            2.9e12 * (0.97 if i == 5 else 1),
            0.002,
            Recipe.of(bytes=2**32, load="all", statistic="median"),
        )
        offset = float(b.random.normal(0, 3e-6)) if i else 0.0
        b.readings.append(
            Reading(
                quantity="clock.offset",
                subject=Subject("rank", str(i)),
                origin=Origin.MEASURED,
                value=offset,
                unit="s",
                low=offset - 4e-6,
                high=offset + 4e-6,
                n=5,
                recipe=Recipe.of(reference=0),
            )
        )
    found = (
        Finding(
            code="GPU_SLOW",
            severity=Severity.HIGH,
            subject=cards[5],
            confidence_frac=0.98,
            because=Message.of("reason.fail.outlier", deviation_frac=-0.111, bound=0.03, unit="1"),
            evidence=(Evidence(file="rank-0005.jsonl", line=14, text="gemm.bf16.rate 6.62e14 FLOP/s"),),
        ),
        Finding(
            code="GPU_THROTTLED",
            severity=Severity.HIGH,
            subject=cards[5],
            because=Message.of("because.text", text="SW thermal slowdown active for 71 % of the windows."),
            evidence=(Evidence(file="rank-0005.jsonl", line=11, text="clocks event reasons 0x20"),),
        ),
        Finding(
            code="LINK_SLOW",
            severity=Severity.HIGH,
            subject=Subject("pair", "node07/2|node07/5"),
            because=Message.of("reason.fail.outlier", deviation_frac=-0.742, bound=0.1, unit="1"),
        ),
    )
    return _data(
        b,
        lang,
        profile="h100-sxm",
        backend="nccl",
        hosts=("node07",),
        ranks=gpus,
        findings=found,
        notes=(
            Message.of("note.spread_by_chance", quantity="gemm.bf16.rate", cards=gpus, chance_frac=0.0084),
        ),
        facts=_gpu_facts(cards),
        series=(_latencies(b, gpus),),
        attested=_attested(b.readings, gpus),
    )


def _attested(readings: list[Reading], gpus: int) -> tuple[Attested, ...]:
    """What carried each collective of one node, over NVLink; small calls are not logged."""
    told = {name: Told(value=None, reason="the log shows no channel over a network") for name in TOLD}
    told["library"] = Told(value="/usr/lib/x86_64-linux-gnu/libnccl.so.2", source="/proc/self/maps")
    told["version"] = Told(value="2.27.3", source="NCCL_DEBUG_FILE")
    told["channels"] = Told(value="P2P/CUMEM", source="NCCL_DEBUG_FILE")
    way = Way(over="nvlink", node="node07", replicate=1, expected_bytes=3.1e13, counted_bytes=3.5e13)
    made = {}
    for r in readings:
        name = attestation_id(r.quantity, r.recipe)
        if name is None or not name.startswith("collectives/"):
            continue
        size = int(name.split("/")[2])
        logged = Told(value="NVLS/SIMPLE") if size > 2**20 else Told(value=None, reason="not logged")
        made[name] = Attested(
            benchmark="collectives",
            op=r.quantity.split(".")[1],
            bytes=size,
            ranks=gpus,
            transport="nccl",
            **told,
            algorithm=logged,
            registration=Told(value="none"),
            standings=((Standing.WITHIN, 5),),
            ways=(way,),
        )
    return tuple(made.values())


def gloo_machine(lang: str = "en") -> ReportData:
    """Two ranks on two cores, judged by the profile that needs no outside numbers: it passes."""
    b = Builder(seed=3, restarts=3)
    ranks = [Subject("rank", str(i)) for i in range(2)]
    gemm = Recipe.of(shape="1024x1024x1024", load="all", statistic="median", window_s=0.4)
    spread = Criterion(
        id="gemm-uniform",
        quantity="gemm.fp32.rate",
        op=Op.SPREAD_AT_MOST,
        unit="1",
        bound=0.05,
        recipe=gemm,
        source="profile self",
    )
    for rank in ranks:
        b.measure("gemm.fp32.rate", rank, "FLOP/s", 6.1e10, 0.004, gemm)
        b.measure(
            "memory.copy.bandwidth",
            rank,
            "B/s",
            7.9e9,
            0.01,
            Recipe.of(bytes=2**28, load="all", statistic="median"),
        )
    b.judge(
        spread,
        CLUSTER,
        Verdict.PASS,
        Message.of(
            "reason.pass.spread_at_most",
            value=0.006,
            low=0.001,
            high=0.011,
            bound=0.05,
            unit="1",
            restarts=3,
            subjects=2,
        ),
        Reading(
            quantity="gemm.fp32.rate",
            subject=CLUSTER,
            origin=Origin.MEASURED,
            value=0.006,
            unit="1",
            low=0.001,
            high=0.011,
            n=3,
            recipe=gemm,
        ),
    )
    present = Criterion(
        id="no-rank-missing", quantity="run.ranks_missing", op=Op.AT_MOST, unit="count", bound=0.0
    )
    b.judge(
        present,
        CLUSTER,
        Verdict.PASS,
        Message.of("reason.pass.at_most", value=0.0, bound=0.0, unit="count"),
        Reading(
            quantity="run.ranks_missing", subject=CLUSTER, origin=Origin.MEASURED, value=0.0, unit="count"
        ),
    )
    for size in SIZES[:11]:
        recipe = Recipe.of(method="pipelined", bytes=size, ranks=2, transport="tcp", statistic="mean")
        b.measure("collective.all_reduce.busbw", CLUSTER, "B/s", 1.4e9 * size / (size + 1.2e5), 0.03, recipe)
    for i, offset in enumerate((0.0, 8e-8)):
        b.readings.append(
            Reading(
                quantity="clock.offset",
                subject=ranks[i],
                origin=Origin.MEASURED,
                value=offset,
                unit="s",
                low=offset - 3e-5,
                high=offset + 3e-5,
                n=3,
                recipe=Recipe.of(reference=0),
            )
        )
    for count, rate in ((1, 5200.0), (2, 9050.0)):
        b.measure(
            "training.tokens_per_s",
            CLUSTER,
            "1/s",
            rate,
            0.02,
            Recipe.of(
                model="tiny", ranks=count, batch_per_rank=4, sequence=128, dtype="fp32", statistic="median"
            ),
        )
    facts = tuple(
        Fact(key=key, subject=Subject("node", "build-2"), value=value, unit=unit, source=source)
        for key, value, unit, source in (
            ("cpu.model", "AMD EPYC 7B13", "text", "/proc/cpuinfo"),
            ("cpu.cores", 2.0, "count", "sched_getaffinity"),
            ("software.torch", "2.13.0", "text", "importlib.metadata"),
        )
    )
    return _data(
        b,
        lang,
        profile="self",
        backend="gloo",
        hosts=("build-2",),
        ranks=2,
        facts=facts,
        series=(_latencies(b, 2),),
    )


def wide(lang: str = "en", *, nodes: int = 128) -> ReportData:
    """A cluster wide enough for the pair map to become an image, and for criteria to be folded."""
    b = Builder(seed=11, restarts=3)
    bound = Criterion(id="pairs", quantity="peer.bandwidth", op=Op.AT_LEAST, unit="B/s", bound=4.5e10)
    recipe = Recipe.of(bytes=2**26, transport="ib", statistic="median")
    values = 4.85e10 * (1 + 0.004 * b.random.standard_normal((nodes, nodes)))
    values[17, 93] = 1.1e10
    for i in range(nodes):
        for j in range(nodes):
            if i != j:
                value = float(values[i, j])
                b.readings.append(
                    Reading(
                        quantity="peer.bandwidth",
                        subject=Subject("link", f"h{i}>h{j}"),
                        origin=Origin.MEASURED,
                        value=value,
                        unit="B/s",
                        low=value * 0.99,
                        high=value * 1.01,
                        n=3,
                        recipe=recipe,
                    )
                )
    for reading in b.readings[:400] + [r for r in b.readings if r.subject.name == "h17>h93"]:
        b.hold(bound, reading)
    return _data(
        b, lang, profile="pairs", backend="nccl", hosts=tuple(f"h{i}" for i in range(nodes)), ranks=nodes * 8
    )


def _latencies(b: Builder, ranks: int) -> Series:
    samples = 3.1e-5 * np.exp(0.06 * b.random.standard_normal(3000))
    samples[b.random.choice(3000, 22, replace=False)] *= b.random.uniform(3, 30, 22)
    return Series(
        quantity="collective.all_reduce.time",
        subject=CLUSTER,
        unit="s",
        samples=samples,
        recipe=Recipe.of(method="aligned", bytes=8, ranks=ranks),
    )


def _gpu_facts(cards: list[Subject]) -> tuple[Fact, ...]:
    facts = []
    for i, card in enumerate(cards):
        name = "NVIDIA H100 80GB HBM3"
        facts += [
            Fact(key="gpu.name", subject=card, value=name, unit="text", source="nvmlDeviceGetName"),
            Fact(
                key="gpu.uuid",
                subject=card,
                value=f"GPU-5d1c-{i:04x}",
                unit="text",
                source="nvmlDeviceGetUUID",
            ),
            Fact(
                key="gpu.vbios",
                subject=card,
                value="96.00.74.00.1C" if i == 5 else "96.00.89.00.01",
                unit="text",
                source="nvmlDeviceGetVbiosVersion",
            ),
            Fact(
                key="gpu.power_limit",
                subject=card,
                value=700.0,
                unit="W",
                source="nvmlDeviceGetPowerManagementLimit",
            ),
        ]
    node = Subject("node", "node07")
    facts += [
        Fact(
            key="host.kernel",
            subject=node,
            value="5.15.0-1064",
            unit="text",
            source="/proc/sys/kernel/osrelease",
        ),
        Fact(
            key="software.nccl", subject=node, value="2.27.5", unit="text", source="torch.cuda.nccl.version"
        ),
        Fact(key="nic.firmware", subject=node, value=None, unit="text", reason="no /sys/class/infiniband"),
    ]
    return tuple(facts)


def _data(
    b, lang, *, profile, backend, hosts, ranks, findings=(), notes=(), facts=(), series=(), attested=()
) -> ReportData:
    claims = [r for r in b.readings if r.origin is Origin.CLAIMED]
    measured = [r for r in b.readings if r.origin is Origin.MEASURED]
    return ReportData(
        shortfalls=shortfalls(claims, measured, (), quantity),
        assessment=Assessment(
            profile=profile, judgements=tuple(b.judgements), findings=findings, notes=notes
        ),
        readings=tuple(b.readings),
        replicates=tuple(b.replicates),
        facts=facts,
        attested={one.id: one for one in attested},
        series=series,
        events=(
            Event(kind="task_done", time_s=1796030140.0, subject=CLUSTER, details={"benchmark": "gemm"}),
        ),
        info=RunInfo(
            run="20261130T091500-3f2a9c",
            created_s=1796030100.0,
            command=f"assay qualify --ranks {ranks} --suite standard --profile {profile}",
            suite="standard",
            ranks=ranks,
            hosts=hosts,
            backend=backend,
            restarts=b.restarts,
            assay_version="0.1.0",
            folder="runs/20261130T091500-3f2a9c",
            versions=(("torch", "2.13.0"), ("python", "3.11.7")),
        ),
        texts=Texts(lang),
        run_hash="9c1f" * 16,
        repeat_command=f"assay qualify --ranks {ranks} --suite standard --profile {profile} --seed 1",
        report_path="runs/20261130T091500-3f2a9c/report.html",
    )


def many_cards(lang: str = "en", *, gpus: int = 1024) -> ReportData:
    """A thousand cards with four odd ones, and three quantities for each: the page must stay small."""
    b = Builder(seed=5, restarts=5)
    gemm = Recipe.of(shape="8192x8192x8192", load="all", statistic="median")
    rate = Criterion(
        id="gemm", quantity="gemm.bf16.rate", op=Op.AT_LEAST, unit="FLOP/s", bound=7.1e14, recipe=gemm
    )
    for i in range(gpus):
        card = Subject("gpu", f"n{i // 8:03}/{i % 8}")
        slow = 0.88 if i in (77, 300, 301, 900) else 1.0
        b.hold(rate, b.measure("gemm.bf16.rate", card, "FLOP/s", 7.45e14 * slow, 0.003, gemm))
        b.measure("gemm.fp16.rate", card, "FLOP/s", 7.6e14 * slow, 0.003, gemm)
        b.measure("memory.copy.bandwidth", card, "B/s", 2.9e12, 0.002, Recipe.of(bytes=2**32, load="all"))
    hosts = tuple(f"n{i:03}" for i in range(gpus // 8))
    return _data(b, lang, profile="h100-sxm", backend="nccl", hosts=hosts, ranks=gpus)
