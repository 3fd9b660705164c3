"""What NCCL, RCCL and their plugins (IB, SHARP, AWS OFI) say of versions, settings and failures."""

from __future__ import annotations

from assay.formats.sentences import Sentence

_REFUSALS = (
    r"No route to host|[Cc]onnection timed out|Software caused connection abort|Connection refused"
    r"|Network is unreachable"
)
_STATUS = r"(?:error |status[= ](?:IBV_WC_\w+\()?)(?P<status>\d+)"
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
