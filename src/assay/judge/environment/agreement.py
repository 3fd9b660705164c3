"""What should be the same on every node, GPU, port and rank; and what only one of them can be."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from assay.domain.fact import Fact
from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.judge.environment.table import FactTable, finding, host_of
from assay.units import show

#: Keys that should agree, by how much it matters where they do not; the first pattern that fits counts.
#: High: collectives hang, refuse to start or run at the pace of the odd one. Medium: rates may differ.
_SHOULD_AGREE: tuple[tuple[str, Severity | None], ...] = (
    # Which devices a rank sees, and who it is, is its own affair.
    ("env.*VISIBLE_DEVICES", None),
    ("env.NCCL_HOSTID", None),
    ("env.*", Severity.MEDIUM),
    ("nccl_conf.*", Severity.MEDIUM),
    ("gpu.name", Severity.HIGH),
    ("gpu.driver", Severity.HIGH),
    ("gpu.cuda_version", Severity.HIGH),
    ("gpu.sm_count", Severity.HIGH),
    ("gpu.memory_total", Severity.HIGH),
    ("gpu.count", Severity.HIGH),
    ("gpu.power_limit", Severity.HIGH),
    ("software.torch.version", Severity.HIGH),
    ("software.nccl*.version", Severity.HIGH),
    ("software.*driver.version", Severity.HIGH),
    ("software.*", Severity.MEDIUM),
    ("torch.version", Severity.HIGH),
    ("torch.*_version", Severity.HIGH),
    ("torch.device_name", Severity.HIGH),
    ("torch.threads", Severity.MEDIUM),
    ("torch.backend", Severity.HIGH),
    ("process.python", Severity.LOW),
    ("host.kernel", Severity.MEDIUM),
    ("host.kernel_args", Severity.LOW),
    ("host.os", Severity.LOW),
    ("host.product", Severity.LOW),
    ("host.bios_version", Severity.LOW),
    ("host.virtualized", Severity.MEDIUM),
    ("cpu.model", Severity.MEDIUM),
    ("cpu.threads", Severity.MEDIUM),
    ("cpu.numa_*", Severity.MEDIUM),
    ("cpu.governor", Severity.MEDIUM),
    ("memory.huge_pages", Severity.LOW),
    ("iommu.mode", Severity.MEDIUM),
    ("limit.memlock_unlimited", Severity.MEDIUM),
    ("limit.nofile", Severity.LOW),
    ("nic.rdma_adapters", Severity.HIGH),
    ("nic.driver", Severity.MEDIUM),
    ("nic.fw_ver", Severity.MEDIUM),
    ("port.link_layer", Severity.MEDIUM),
    *((f"gpu.{name}", Severity.MEDIUM) for name in ("vbios", "ecc_enabled", "mig_enabled", "virtualization")),
    *((f"gpu.{name}", Severity.MEDIUM) for name in ("sm_clock_max", "memory_clock_max", "compute_mode")),
    *((f"gpu.{name}", Severity.MEDIUM) for name in ("nvlinks", "nvlink_version", "partition")),
    *((f"gpu.pcie_{name}_max", Severity.MEDIUM) for name in ("width", "generation")),
    ("gpu.persistence", Severity.LOW),
)
#: A variable or package that some lack was read on the others, so its absence is a value too.
_ABSENCE_COUNTS = re.compile(r"(env|nccl_conf)\..+|software\..+\.version")
_NAMES_SHOWN = 4

#: What one device or machine has and no other: key → whether two in the same node are a fault as well.
#: Boards that carry several GPUs give all of them the board's serial number.
_UNIQUE = {"gpu.uuid": True, "gpu.serial": False, "nic.node_guid": False, "host.serial": False}
#: What firmware writes where nobody set a number.
_NO_NUMBER = re.compile(
    r"[0:\s-]*|n/?a|\[n/?a\]|none|unknown|not specified|default string|to be filled by o\.?e\.?m\.?|"
    r"system serial number",
    re.IGNORECASE,
)


def differences(table: FactTable) -> Iterator[Finding]:
    """One finding per key in which subjects differ: who is in the minority, and what the majority has."""
    for key in table.keys:
        severity = next((s for pattern, s in _SHOULD_AGREE if fnmatchcase(key, pattern)), None)
        if severity is None:
            continue
        groups: dict[str, list[Fact]] = defaultdict(list)
        for fact in table.all_of(key):
            groups[_group(table, fact)].append(fact)
        for facts in groups.values():
            holders = _holders(table, key, facts)
            if len(holders) > 1:
                yield _differs(key, facts, holders, severity)


def duplicates(table: FactTable) -> Iterator[Finding]:
    """One finding per identity that two subjects claim to have."""
    for key, within_node in _UNIQUE.items():
        holders: dict[str, list[Fact]] = defaultdict(list)
        for fact in table.of(key).values():
            if isinstance(fact.value, str) and not _NO_NUMBER.fullmatch(fact.value.strip()):
                holders[fact.value].append(fact)
        for value, facts in holders.items():
            hosts = {host_of(fact.subject) for fact in facts}
            if len(hosts) > 1 or (within_node and len(facts) > 1):
                because = Message.of(
                    "because.device_duplicated", key=key, text=value, names=_names(f.subject for f in facts)
                )
                yield finding("DEVICE_DUPLICATED", facts[-1].subject, because, *facts)
    yield from _one_machine(table)
    yield from _one_gpu(table)


def _one_machine(table: FactTable) -> Iterator[Finding]:
    """Node names under which one kernel runs: containers, or a machine that is counted twice."""
    holders: dict[object, list[Fact]] = defaultdict(list)
    for fact in table.of("host.boot_id").values():
        holders[fact.value].append(fact)
    for facts in holders.values():
        if len(facts) > 1:
            because = Message.of("because.one_machine", names=_names(f.subject for f in facts))
            yield finding("DEVICE_DUPLICATED", facts[-1].subject, because, *facts, severity=Severity.LOW)


def _one_gpu(table: FactTable) -> Iterator[Finding]:
    """Ranks that run on one and the same GPU."""
    holders: dict[object, list[Fact]] = defaultdict(list)
    for fact in table.of("torch.device_uuid").values():
        holders[fact.value].append(fact)
    for uuid, facts in holders.items():
        if len(facts) > 1:
            because = Message.of("because.one_gpu", text=str(uuid), names=_names(f.subject for f in facts))
            yield finding("DEVICE_DUPLICATED", facts[-1].subject, because, *facts, severity=Severity.MEDIUM)


def _group(table: FactTable, fact: Fact) -> str:
    """Subjects of one kind are compared: GPUs of one name, ports of one adapter model."""
    subject = fact.subject
    if subject.kind == "gpu" and fact.key != "gpu.name":
        return f"gpu {table.text(subject, 'gpu.name')}"
    if subject.kind == "port":
        board = table.text(subject, "nic.board_id") or table.text(subject, "nic.hca_type")
        # An interface without an RDMA adapter has siblings of its own name on the other nodes.
        return f"port {board or subject.name.partition('/')[2]}"
    return subject.kind


def _holders(table: FactTable, key: str, facts: list[Fact]) -> dict[str, list[Subject]]:
    """Who has which value, as text; who lacks it counts where absence is a value."""
    holders: dict[str, list[Subject]] = defaultdict(list)
    for fact in facts:
        if fact.value is not None:
            holders[show(fact.value, fact.unit)].append(fact.subject)
    if holders and _ABSENCE_COUNTS.fullmatch(key):
        have = {subject for subjects in holders.values() for subject in subjects}
        lack = [s for s in table.subjects(facts[0].subject.kind) if s not in have]
        if lack:
            holders["–"] += lack
    return dict(sorted(holders.items(), key=lambda item: (-len(item[1]), item[0])))


def _differs(key: str, facts: list[Fact], holders: dict[str, list[Subject]], severity: Severity) -> Finding:
    (many, agree), *rest = holders.items()
    because = Message.of(
        "because.env_differs",
        key=key,
        few="; ".join(f"{value} ({_names(subjects)})" for value, subjects in rest[:_NAMES_SHOWN]),
        many=many,
        agree=len(agree),
        subjects=sum(map(len, holders.values())),
    )
    odd = {subject for _, subjects in rest for subject in subjects}
    shown = [fact for fact in facts if fact.subject in odd][:_NAMES_SHOWN]
    typical = next((fact for fact in facts if fact.subject in agree), None)
    # Of two equal parties none is the odd one.
    subject = rest[0][1][0] if len(rest[0][1]) < len(agree) else CLUSTER
    return finding("ENV_DIFFERS", subject, because, *shown, typical, severity=severity)


def _names(subjects: Iterable[Subject]) -> str:
    names = [str(subject) for subject in sorted(set(subjects))]
    return ", ".join(names[:_NAMES_SHOWN]) + (
        f" +{len(names) - _NAMES_SHOWN}" if len(names) > _NAMES_SHOWN else ""
    )
