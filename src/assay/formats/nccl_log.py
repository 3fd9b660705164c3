"""The log of NCCL and RCCL from 2.4 to 2.30, with the lines of its plugins (IB, SHARP, AWS OFI).

A line is `host:pid:tid [cudaDev] NCCL INFO text`; a warning names its source file first, and from 2.27
on has a time stamp before the host. Launchers put their own prefix before all of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from assay.formats.sentences import LONGEST, Said, Sentence, Vocabulary

_PREFIX = re.compile(
    r"(?:\[(?P<time>\d{4}-\d\d-\d\d [\d:.]+)\] )?(?P<host>[A-Za-z0-9][\w.-]*):(?P<pid>\d+):\d+"
    r"(?: \[[A-Za-z]\w*\])? \[(?P<dev>-?\w+)\] (?:\S+:\d+(?: \(\w+\))? )?"
    r"NCCL (?P<level>[A-Z]+) (?P<text>.*)"
)
#: Where a process begins a line inside of another one's.
_START = re.compile(r"[A-Za-z][\w.-]*:\d+:\d+ (?:\[[A-Za-z]\w*\] )?\[-?\w+\] ")
_CHANNEL = re.compile(
    r"(?:Channel|Ring) (?P<channel>\d+)(?:/\d+)? : (?P<src>\d+)\[(?P<src_dev>\w+)\] -> "
    r"(?P<dst>\d+)\[(?P<dst_dev>\w+)\](?: \[(?P<way>send|receive)\])? via (?P<via>[^\n]+?)(?: comm .*)?$"
)
#: `NET/IB/3(7)/GDRDMA`: device 3, reached through rank 7.
_NET_DEVICE = re.compile(r"NET/[^/]+/(\d{1,6})(?:\(|/|$)")
_COMM = re.compile(
    r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) n[rR]anks (?P<nranks>\d+)"
    r"(?:.*?nNodes (?P<nnodes>\d+) localRanks (?P<local_ranks>\d+))?"
    r"(?:.*?cudaDev (?P<cuda>\d+))?(?:.*?busId (?P<busid>[0-9a-f]+))?(?:.*?commId (?P<id>0x[0-9a-f]+))?"
    r"(?:.*?Init (?P<state>START|COMPLETE))?"
)
_ENV = re.compile(r"(?P<name>R?NCCL_\w+) set (?:by (?:environment|config file \S+) )?to (?P<value>.*?)\.?$")
_REFUSALS = (
    r"No route to host|[Cc]onnection timed out|Software caused connection abort|Connection refused"
    r"|Network is unreachable"
)
_STATUS = r"(?:error |status[= ](?:IBV_WC_\w+\()?)(?P<status>\d+)"
#: First word of the text -> what it may say. Everything else is looked up in the vocabulary.
_BY_FIRST: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "Bootstrap": (
        ("nccl.bootstrap", re.compile(r"Bootstrap ?: Using (?:\[\d+\])?(?P<iface>[^:\s]+):(?P<addr>\S+?)<")),
    ),
    "NET/IB": (
        ("nccl.ib_devices", re.compile(r"NET/IB ?: Using (?P<devices>\[\d+\].*?)(?: ?;|$)")),
        ("nccl.ib_none", re.compile(r"NET/IB ?: No device found")),
        ("nccl.gdr_disabled", re.compile(r"GPU Direct RDMA Disabled for HCA (?P<hca>\d+) '(?P<name>[^']+)'")),
        (
            "nccl.gdr_disabled",
            re.compile(
                r"GPU Direct RDMA Disabled for GPU \S+ / HCA (?P<hca>\d+) '(?P<name>[^']+)' \(no module"
            ),
        ),
        (
            "nccl.gdr_pair",
            re.compile(
                r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>\w+)\[\d+\] / HCA (?P<hca>\w+) "
                r"\(distance (?P<distance>\d+) (?P<than><|>=) (?P<limit>\d+)\)"
            ),
        ),
        ("nccl.gdr_enabled", re.compile(r"GPU Direct RDMA Enabled for HCA (?P<hca>\d+) '(?P<name>[^']+)'")),
        (
            "nccl.qp",
            re.compile(
                r"Dev (?P<dev>\d+) Port (?P<port>\d+) qpn \d+ mtu (?P<mtu>\d+) "
                r"(?:.*?GID (?P<gid_index>\d+) \((?P<gid>[^)]*)\))?"
            ),
        ),
    ),
    "NET/Socket": (("nccl.socket_devices", re.compile(r"NET/Socket ?: Using (?P<devices>\[\d+\].*)")),),
    "Using": (("nccl.network", re.compile(r"Using network (?P<network>.+?)\s*$")),),
    "GPU": (
        (
            "nccl.gdr_pair",
            re.compile(
                r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>\w+) / HCA (?P<hca>\w+) "
                r"\(distance (?P<distance>\d+) (?P<than><=|>) (?P<limit>\d+)\)"
            ),
        ),
    ),
    "Pattern": (
        ("nccl.pattern", re.compile(r"Pattern (?P<pattern>\d+),.*type (?P<intra>\w+)/(?P<inter>\w+)")),
    ),
    "NVLS": (("nccl.nvls", re.compile(r"NVLS multicast support is available")),),
    "Setting": (
        (
            "nccl.affinity",
            re.compile(r"Setting affinity for GPU (?P<gpu>\d+) to (?P<mask>[0-9a-f][0-9a-f,-]*)"),
        ),
    ),
    "Kernel": (("host.kernel", re.compile(r"Kernel version: (?P<release>\S+)")),),
    "RCCL": (("rccl.version", re.compile(r"RCCL version ?:? ?(?P<version>\d+\.\d+\.\d+)")),),
    "P2P": (("nccl.plugin", re.compile(r"P2P plugin (?P<name>\S+)")),),
    "Connected": (("nccl.connected", re.compile(r"Connected all (?P<what>rings|trees)")),),
}
for _alias, _key in (("NET/IB:", "NET/IB"), ("Bootstrap:", "Bootstrap"), ("NET/Socket:", "NET/Socket")):
    _BY_FIRST[_alias] = _BY_FIRST[_key]
#: How a collective begins that NCCL logs with the subsystem COLL, once per call.
_CALL = re.compile(
    r"(?P<op>\w+): opCount (?P<count>[0-9a-f]+) .*?count (?P<elements>\d+) datatype (?P<dtype>\d+).*?"
    r"\[nranks=(?P<nranks>\d+)\]"
)
#: First words of lines that say nothing about a fault and may stand there by the million.
_PLAIN = frozenset(
    {
        "AllReduce:",
        "AllGather:",
        "ReduceScatter:",
        "Broadcast:",
        "Reduce:",
        "Send:",
        "Recv:",
        "AllToAll:",
        "Trees",
        "Tree",
        "===",
        "+",
        "-",
        "HINT:",
        "threadThresholds",
        "Init",
        "CC",
        "TUNER/Plugin:",
        "Plugin",
        "MNNVL",
        "Algorithm",
    }
)

#: Words by which a warning tells of a failure, and not only of a setting.
_TROUBLE = ("failed", "failure", "error", "Error", "ERROR", "timeout", "abort", "Abort", "Couldn", "Unable")
#: Facts of NCCL and its plugins wherever they stand, also as the "Last error" that PyTorch prints.
SENTENCES = (
    Sentence("nccl.version", "version", r"\bNCCL version:? (?P<version>\d+\.\d+\.\d+)"),
    Sentence("rccl.version", "RCCL", r"RCCL version ?:? ?(?P<version>\d+\.\d+\.\d+)"),
    Sentence("rocm.version", "ROCm", r"ROCm version ?: ?(?P<version>\d+\.\d+\.\d+)"),
    *(Sentence("nccl.warned", word, r"NCCL WARN .*\b" + word) for word in _TROUBLE),
    Sentence("nccl.ibverbs_missing", "libibverbs", r"Failed to open libibverbs\.so"),
    Sentence("nccl.plugin", "plugin", r"Loaded net plugin (?P<name>.+?)(?: \(v\d+\))?$"),
    Sentence(
        "ib.completion",
        "completion",
        r"Got completion (?:from peer (?P<peer>\S+?)(?:<\d+>)? )?with "
        + _STATUS
        + r"(?:.*?vendor[ _]err[ =](?P<vendor>\d+))?(?:.*?localGid (?P<local_gid>[0-9a-fA-F:.]+))?"
        r"(?:.*?remoteGids? ?(?P<remote_gid>[0-9a-fA-F:.]+))?(?:.*?hca (?P<hca>\w+))?",
    ),
    Sentence(
        "ucx.retry",
        "retry",
        r"^\[(?P<node>[\w.-]+?):\d+:\d+:\d+\].*Transport retry count exceeded on (?P<hca>\w+):",
    ),
    Sentence("ib.async_event", "event", r"Got (?:non-fatal )?async (?:error )?event ?: (?P<event>.*)"),
    Sentence("ib.async_event", "event", r"async (?:error|fatal) event(?: on \w+)?.*?: (?P<event>.*)"),
    Sentence("ib.device_failed", "failed", r"NET/IB ?: Device (?P<dev>\d+) marked as failed"),
    Sentence(
        "ib.modify_qp",
        "ibv_modify_qp",
        r"ibv_modify_qp failed with (?:error )?(?:(?P<errno>\d+) )?(?P<error>[A-Z][A-Za-z ]+?)"
        r"(?:, on dev (?P<dev>\w+)"
        r"(?:.*?local GID index (?P<gid_index>\d+))?(?:.*?local GID (?P<local>[0-9a-fA-F:.]+))?"
        r"(?:.*?remote GID (?P<remote>[0-9a-fA-F:.]+))?.*)?$",
    ),
    Sentence(
        "ib.no_memory",
        "failed",
        r"Call to (?P<call>ibv_(?:reg_mr\w*|create_cq|create_qp|reg_dmabuf_mr|alloc_pd)) failed"
        r"(?: with (?:error )?(?:\d+ )?(?P<error>[A-Z].*))?\s*$",
    ),
    Sentence("ib.no_device", "failed", r"Call to ibv_\w+ failed with (?:error )?(?:19 )?No such device"),
    Sentence("ib.open_failed", "Unable", r"NET/IB ?: Unable to open device (?P<dev>\w+)"),
    Sentence(
        "nccl.mismatched_call",
        "Mismatched",
        r"Mismatched collective detected, please check .*rank (?P<around>\d+)",
    ),
    Sentence("nccl.net_mismatch", "NCCL_IGNORE_NET_MISMATCH", r"NCCL_IGNORE_NET_MISMATCH"),
    Sentence("nccl.ib_incompatible", "incompatible", r"Attempted to connect incompatible devices"),
    Sentence("nccl.ib_incompatible", "incompatible", r"Remote .*device is incompatible with the local"),
    *(
        Sentence(
            "net.connect_failed",
            word,
            r"onnect to (?P<addr>[^\s<]+)<\d+> (?:failed|returned).*?(?P<error>" + _REFUSALS + ")",
        )
        for word in ("Connect", "connect")
    ),
    Sentence(
        "net.connect_failed",
        "connect",
        r"(?:Call to connect|connect to \S+) (?:failed|timeout|returned).*?(?P<error>" + _REFUSALS + ")",
    ),
    Sentence(
        "net.connect_failed",
        "ncclOsSocketPollConnect",
        r"ncclOsSocketPollConnect to (?P<addr>[^\s<]+)<\d+> failed with error (?P<error>[A-Z].*)",
    ),
    Sentence(
        "net.no_subnet",
        "subnet",
        r"No interface found in the same subnet as remote address (?P<addr>[^\s<]+)",
    ),
    Sentence("net.bind_failed", "assign", r"[Bb]ind.*Cannot assign requested address"),
    Sentence("net.no_interface", "family", r"^(?!.*c10d).*[Ss]ocket.*Address family not supported"),
    Sentence(
        "net.no_interface",
        "interface",
        r"[Nn]o (?:socket |IP )?interface found|No usable listening interface",
    ),
    Sentence("net.remote_closed", "closed", r"Connection closed by remote peer (?P<peer>\S*)"),
    Sentence("os.nofile", "open", r"Too many open files"),
    Sentence("shm.no_space", "space", r"No space left on device"),
    Sentence("shm.segment", "memory", r"Error while creating shared memory segment (?P<name>\S+)"),
    Sentence(
        "shm.attach_empty",
        "attaching",
        r"Error while attaching to shared memory segment (?P<name>.*?) \(size 0\)",
    ),
    Sentence("nccl.cumem_fallback", "cuMem", r"cuMem host allocations do not appear to be working"),
    Sentence(
        "nccl.duplicate_gpu",
        "Duplicate",
        r"Duplicate GPU detected : rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<device>\w+)",
    ),
    Sentence("nccl.duplicate_gpu", "Multiple", r"Multiple Ranks are using the same GPU"),
    Sentence(
        "nccl.size_mismatch",
        "mismatch",
        r"collective mismatch error,? local size (?P<local>\d+) remote (?:size )?(?P<remote>\d+)",
    ),
    Sentence(
        "nccl.version_mismatch",
        "bootstrap",
        r"bootstrap\.cc.*[Mm]essage truncated",
    ),
    Sentence(
        "nccl.size_mismatch",
        "truncated",
        r"[Mm]essage truncated : receiving (?P<remote>\d+) bytes instead of (?P<local>\d+)",
    ),
    Sentence("nccl.size_mismatch", "incorrect", r"posted incorrect receive info: size (?P<local>\d+)"),
    Sentence("nccl.version_mismatch", "Mismatched", r"Mismatched NCCL version detected"),
    Sentence(
        "nccl.nvls_bind",
        "Multicast",
        r"Failed to bind NVLink SHARP.*?(?:CUDA error (?P<error>\d+))?(?: '.*)?$",
    ),
    Sentence(
        "nccl.nvls_failure",
        "nvls",
        r"transport/nvls\.cc:\d+.*NCCL WARN Cuda failure (?P<error>\d+)? ?'?(?P<what>[a-z ]+)'?",
    ),
    Sentence(
        "nccl.p2p_disabled",
        "NVLINK",
        r"P2P is disabled between NVLINK connected GPUs (?P<a>\d+) and (?P<b>\d+)",
    ),
    Sentence("cuda.not_initialised", "initialized", r"Cuda failure (?:802 )?'system not yet initialized'"),
    Sentence("cuda.driver_too_old", "insufficient", r"driver version is insufficient for CUDA runtime"),
    Sentence("nccl.symbol_missing", "symbol", r"Cuda failure.*named symbol not found"),
    Sentence("nccl.symbol_missing", "kernel", r"Cuda failure.*no kernel image is available"),
    Sentence(
        "nccl.shared_memory_bug",
        "ncclMaxSharedMem",
        r"ncclMaxSharedMem (?P<want>\d+) exceeds device/fn maxSharedMem (?P<have>\d+)",
    ),
    Sentence("cuda.out_of_memory", "memory", r"Cuda failure (?:2 )?'out of memory'|Failed to CUDA calloc"),
    Sentence("imex.missing", "MNNVL", r"MNNVL .*is available but not working.*IMEX"),
    Sentence("cuda.driver_too_old", "Driver", r"CUDA Driver version found is \d+\. Minimum requirement"),
    Sentence(
        "nccl.gdr_disabled",
        "Disabled",
        r"NET/(?!Socket|IB )[\w ]+ : GPU Direct RDMA Disabled for HCA (?P<hca>\d+) '(?P<name>[^']+)'",
    ),
    Sentence(
        "cuda.fabric_denied",
        "failure",
        r"Cu(?:da|DA) failure (?:800 |401 )?'(?:operation not permitted|CUDA_ERROR_NOT_PERMITTED)'",
    ),
    Sentence(
        "topo.unreadable",
        "Topology",
        r"Topology detection ?: could not read (?P<path>\S*max_link_(?:speed|width))",
    ),
    Sentence("topo.unreadable", "Convert", r"KV Convert to int : could not find value of ''"),
    Sentence(
        "ofi.provider",
        "Provider",
        r"Selected [Pp]rovider is (?P<provider>[\w;-]+)(?:.*?\(?found (?P<nics>\d+))?",
    ),
    Sentence("ofi.failed", "fi_getinfo", r"fi_getinfo\(\) call failed|fi_getinfo: provider efa output empty"),
    Sentence("ofi.failed", "provider", r"NET/OFI.*Could(?: not|n't) find any optimal provider"),
    Sentence("ofi.failed", "providers", r"NET/OFI.*No eligible providers were found"),
    Sentence("ofi.failed", "OFI", r"aws-ofi-nccl initialization failed|NET/OFI No eligible providers"),
    Sentence("sharp.port_used_by_sm", "port", r"[Pp]ort .*is used by (?:the )?SM|port is used by SM"),
    Sentence("sharp.not_on_sm", "bind", r"must bind to (?:a )?port with (?:the )?master SM"),
    Sentence("sharp.no_job", "lock", r"Streaming Tree lock failed|Failed to lock SAT tree"),
    Sentence(
        "sharp.no_job", "Aggregation", r"(?:Failed|[Cc]annot|[Uu]nable) to connect to Aggregation Manager"
    ),
    Sentence("sharp.no_job", "sharp_get_job_data_len", r"sharp_get_job_data_len failed"),
    Sentence("sharp.no_job", "SHARP", r"(?:Cannot|Failed to) create SHARP (?:job|collective)"),
    Sentence(
        "rccl.kernel_params",
        "Missing",
        r"Missing \"?(?P<parameter>iommu=pt|[\w.=]+)\"? from kernel command line",
    ),
    Sentence("rccl.numa_balancing", "NUMA", r"NUMA auto balancing (?:is )?enabled"),
)
VOCABULARY = Vocabulary(SENTENCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A connection from one rank to another; `gdr` when GPUDirect.

    `transport` is `via` without its device number, which is `net_device` where the network is the way.
    """

    file: str
    line: int
    text: str
    host: str
    src: int
    dst: int
    src_device: str
    dst_device: str
    way: str | None
    transport: str
    gdr: bool
    net_device: int | None = None


def read_line(line: str, number: int, file: str) -> Iterator[Said | Channel] | None:
    """The facts of one line, or None when it is no line of this log.

    Processes write into one file at once, so a line may hold the beginnings of several.
    """
    at = line.find(" NCCL ")
    if at < 0:
        return None
    if line.find(" NCCL ", at + 6) >= 0:
        starts = [match.start() for match in _START.finditer(line)]
        if len(starts) > 1:
            pieces = [line[a:b] for a, b in itertools.pairwise([*starts, len(line)])]
            found = [match for piece in pieces if (match := _PREFIX.match(piece))]
            return itertools.chain.from_iterable(_facts(match, line, number, file) for match in found)
    first = _PREFIX.match(line) or _PREFIX.search(line)
    return None if first is None else _facts(first, line, number, file)


def _facts(match: re.Match[str], line: str, number: int, file: str) -> Iterator[Said | Channel]:
    text = match["text"]
    first = text.split(" ", 1)[0]
    if first in _PLAIN and match["level"] == "INFO":
        return
    host, shown = match["host"], line.strip()[:LONGEST]
    said = {
        "file": file,
        "line": number,
        "text": shown,
        "host": host,
        "pid": match["pid"],
        "device": match["dev"],
        "time": match["time"],
    }
    if first in ("Channel", "Ring") and (found := _CHANNEL.match(text)):
        via = found["via"]
        yield Channel(
            file=file,
            line=number,
            text=shown,
            host=host,
            src=int(found["src"][:9]),
            dst=int(found["dst"][:9]),
            src_device=found["src_dev"],
            dst_device=found["dst_dev"],
            way=found["way"],
            transport=_transport(via),
            gdr="/GDRDMA" in via,
            net_device=int(net[1]) if (net := _NET_DEVICE.match(via)) else None,
        )
        return
    if "NCCL_" in first and (found := _ENV.match(text)):
        yield Said(fact="nccl.env", fields=_groups(found), **said)  # type: ignore[arg-type]
        return
    if " rank " in text and (found := _COMM.search(text)):
        yield Said(fact="nccl.comm", fields=_groups(found), **said)  # type: ignore[arg-type]
        return
    for fact, pattern in _BY_FIRST.get(first, ()):
        if found := pattern.search(text):
            yield Said(fact=fact, fields=_groups(found), **said)  # type: ignore[arg-type]
            return
    for fact, fields in VOCABULARY.find(shown):
        yield Said(fact=fact, fields=fields, **said)  # type: ignore[arg-type]


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _transport(via: str) -> str:
    """`NET/IB/0/GDRDMA` → `NET/IB`; `P2P/CUMEM/read` → `P2P/CUMEM`; `direct shared memory` → `SHM`."""
    if "shared memory" in via or via.startswith("SHM"):
        return "SHM"
    parts = via.split("/")
    return "/".join(parts[:2]) if parts[0] in ("NET", "P2P", "COLLNET") else parts[0]


class LastCalls:
    """The last collective that each process logged: kept by its line, read only at the end."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._last: dict[str, tuple[int, str]] = {}

    def see(self, line: str, number: int) -> bool:
        """Remember the latest call of each process and communicator size; False when the line is none."""
        at = line.find("] NCCL INFO ")
        end = line.rfind("[nranks=")
        if at < 0 or end < at or len(self._last) > 100_000:
            return False
        self._last[line[:at] + line[end : end + 14]] = (number, line)
        return True

    def records(self) -> Iterator[Said]:
        """One fact per process and size of communicator."""
        for number, line in self._last.values():
            prefix, call = _PREFIX.search(line), _CALL.search(line)
            if prefix and call:
                yield Said(
                    fact="nccl.last_call",
                    file=self._file,
                    line=number,
                    text=line.strip()[:LONGEST],
                    fields=_groups(call),
                    host=prefix["host"],
                    pid=prefix["pid"],
                    device=prefix["dev"],
                )


def devices(listed: str) -> tuple[tuple[str, str], ...]:
    """`[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]` → ((mlx5_0, IB), (mlx5_1, RoCE)); also `[0]={[0] …}` (2.23)."""
    return tuple(re.findall(r"\[\d+\] ?([\w+.-]+):\d+/(\w+)", listed))


def ports(listed: str) -> tuple[str | None, ...]:
    """The same as `mlx5_0/1` by their number; None for adapters that NCCL has merged into one device."""
    if "={" in listed:  # groups of adapters, which are numbered apart
        return ()
    found = {int(n): f"{name}/{port}" for n, name, port in re.findall(r"\[(\d+)\] ?([\w.-]+):(\d+)/", listed)}
    return tuple(found.get(n) for n in range(max(found, default=-1) + 1))


def interfaces(listed: str) -> tuple[tuple[str, str], ...]:
    """`[0]eth0:10.0.0.1<0> [1]…` → ((eth0, 10.0.0.1), …)."""
    return tuple(re.findall(r"\[\d+\]([^:\s]+):([^<\s]+)<", listed))
