"""The node beside its GPUs: main memory, processors and adapters, as the kernel tells of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import POSSIBLE, PROVEN, found, host_of, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.formats.sentences import Said


@rule("HOST_FAULT", reads=("kernel log",))
def host_fault(facts: Facts, job: Job) -> Iterator[Finding]:
    """Memory that cannot be corrected; a processor that hangs may also be a bug of a driver."""
    for lines, sure, because in (
        (facts.all("host.memory_error"), PROVEN, "doctor.host_memory_error"),
        (facts.all("kernel.lockup"), POSSIBLE, "doctor.kernel_lockup"),
    ):
        if lines:
            subject = node(host_of(lines[0]))
            yield found("HOST_FAULT", lines, sure=sure, subject=subject, because=Message(because))


@rule("NIC_FAULT", reads=("kernel log",))
def nic_fault(facts: Facts, job: Job) -> Iterator[Finding]:
    """What the driver of an adapter says of its health, its power and its heat."""
    by_nic: dict[tuple[str | None, str], list[Said]] = defaultdict(list)
    for said in facts.all("nic.unwell"):
        by_nic[host_of(said), said["busid"]].append(said)
    for (host, busid), lines in by_nic.items():
        because = Message.of("doctor.nic_says", what=", ".join(dict.fromkeys(s["what"] for s in lines)))
        subject = Subject("port", f"{host}/{busid}" if host else busid)
        yield found("NIC_FAULT", lines, sure=0.8, subject=subject, because=because)
