"""All facts of one machine, in the order in which a report shows them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from assay.probe.clocks import read_clocks
from assay.probe.cpu import read_cpus, steal_facts
from assay.probe.fact import Fact
from assay.probe.files import Roots, read
from assay.probe.gpu import read_gpus
from assay.probe.host import read_host
from assay.probe.limits import read_limits
from assay.probe.nic import read_nics
from assay.probe.pcie import read_bus
from assay.probe.software import read_software


def inventory(
    *,
    host: str | None = None,
    roots: Roots | None = None,
    environ: Mapping[str, str] | None = None,
    packages: Sequence[str] | None = None,
    nvml_library: str | None = None,
    own_pids: Collection[int] | None = None,
) -> tuple[Fact, ...]:
    """Read the machine; what is missing is a fact with a reason, never an exception.

    `host` names the machine in the subjects (default: its own name). `roots`, `environ`, `packages` and
    `nvml_library` say where to look instead of this process's own places; `own_pids` are the processes
    whose use of a GPU does not count as sharing. The share of stolen time is taken over the inventory
    itself, so it is missing where that ends within a few ticks.
    """
    host = os.uname().nodename if host is None else host
    roots = Roots.under("/", home=os.path.expanduser("~")) if roots is None else roots
    environ = os.environ if environ is None else environ
    node = f"node:{host}"
    stat_before = read(roots.proc / "stat")
    facts = (
        *read_host(node, roots, environ),
        *read_cpus(node, roots),
        *read_limits(node, roots),
        *read_gpus(host, roots, library=nvml_library, own_pids=own_pids),
        *read_nics(host, roots),
        *read_bus(node, roots),
        *read_software(node, roots, environ, packages=packages),
        *read_clocks(node, roots, environ),
    )
    return (*facts, *steal_facts(node, stat_before, read(roots.proc / "stat")))
