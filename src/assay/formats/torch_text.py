"""What PyTorch prints when a job fails: the NCCL watchdog, c10d, Gloo, torchrun, CUDA errors, fr_trace."""

from __future__ import annotations

from assay.formats.sentences import Sentence

#: How NCCL's calls end that do not succeed.
NCCL_ERRORS = (
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "ncclInternalError",
    "ncclInvalidArgument",
    "ncclInvalidUsage",
    "ncclRemoteError",
)
#: `rank` among the named parts is the rank that the line itself names.
SENTENCES = (
    Sentence(
        "torch.timeout",
        "WorkNCCL",
        r"\[(?:PG (?:ID )?(?P<pg>\d+)[^\]]*?)?Rank (?P<rank>\d+)\] Watchdog caught collective operation "
        r"timeout: "
        r"WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)(?:, TensorShape=\[(?P<shape>[\d, ]*)\])?"
        r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?"
        r"(?:.*?Timeout\(ms\)=(?P<timeout_ms>\d+))?",
    ),
    Sentence(
        "torch.status",
        "enqueued",
        r"\[PG (?:ID )?(?P<pg>\d+)[^\]]*?Rank (?P<rank>\d+)\].*?"
        r"(?:work sequence id|[Tt]imeout at NCCL work|at work)"
        r"[:=]? ?(?P<seq>\d+).*?last enqueued (?:NCCL )?work: (?P<enqueued>\d+), "
        r"last completed (?:NCCL )?work: (?P<completed>-?\d+)",
    ),
    Sentence(
        "torch.watchdog_error",
        "watchdog",
        r"(?:Rank (?P<rank>\d+)\].*)?watchdog thread terminated with exception: (?P<error>CUDA error: .+)",
    ),
    Sentence(
        "torch.fingerprint",
        "mismatch",
        r"Detected mismatch between collectives on ranks|CollectiveFingerPrint.*mismatch"
        r"|mismatch.*CollectiveFingerPrint",
    ),
    Sentence(
        "torch.fingerprint",
        "CollectiveFingerPrint",
        r"Rank (?P<rank>\d+) is running collective: CollectiveFingerPrint",
    ),
    Sentence("cuda.ecc", "ECC", r"uncorrectable ECC error encountered"),
    Sentence("cuda.not_initialised", "initialized", r"system not yet initialized|cudaErrorSystemNotReady"),
    Sentence("cuda.not_initialised", "cudaErrorSystemNotReady", r"cudaErrorSystemNotReady"),
    Sentence("cuda.driver_too_old", "insufficient", r"driver version is insufficient for CUDA runtime"),
    Sentence("cuda.driver_too_old", "driver", r"NVIDIA driver on your system is too old"),
    Sentence("cuda.driver_too_old", "PTX", r"provided PTX was compiled with an unsupported toolchain"),
    Sentence("cuda.out_of_memory", "OutOfMemoryError", r"OutOfMemoryError|(?:CUDA|HIP) out of memory"),
    Sentence("cuda.out_of_memory", "memory", r"CUDA out of memory|CUDA error: out of memory"),
    Sentence("cuda.symbol_missing", "compatible", r"is not compatible with the current PyTorch installation"),
    Sentence("cuda.symbol_missing", "kernel", r"CUDA error: no kernel image is available"),
    Sentence("cuda.fabric_denied", "cuMemCreate", r"cuMemCreate.*(?:not permitted|failed: 800)"),
    Sentence("cuda.fabric_denied", "CUDA_ERROR_NOT_PERMITTED", r"CUDA_ERROR_NOT_PERMITTED"),
    Sentence("nvlink.cuda_error", "uncorrectable", r"uncorrectable NVLink error"),
    Sentence("nvlink.cuda_error", "NVLink", r"(?i)uncorrectable NVLink error|cudaErrorNvlinkUncorrectable"),
    Sentence("nvlink.cuda_error", "cudaErrorNvlinkUncorrectable", r"cudaErrorNvlinkUncorrectable"),
    Sentence("nccl.remote_error", "ncclRemoteError", r"ncclRemoteError"),
    Sentence("nccl.remote_error", "remote", r"remote process exited or there was a network error"),
    Sentence("nccl.failure", "failure", r"Test NCCL failure"),
    Sentence(
        "gloo.loopback",
        "loopback",
        r"Unable to resolve hostname to a \(?local\)? address|"
        r"[Uu]sing the loopback address as fallback",
    ),
    Sentence("gloo.connect_loopback", "connectFullMesh", r"connectFullMesh failed.*remote=\[127\."),
    Sentence("gloo.connect_loopback", "connect", r"gloo.*connect \[127\.[\d.]+\]:\d+: Connection refused"),
    Sentence("gloo.connect_loopback", "Connection", r"[Gg]loo.*Connection refused, remote=\[127\."),
    Sentence("gloo.timeout", "timeout", r"[Gg]loo.*[Tt]imed out waiting \d+ms for (?:recv|send)"),
    Sentence("gloo.closed", "closed", r"[Gg]loo.*Connection closed by peer \[(?P<peer>[^\]]*)\]"),
    Sentence(
        "c10d.store_timeout", "timed", r"client socket has timed out after.*connect to \((?P<addr>[^)]*)\)"
    ),
    Sentence(
        "c10d.clients_missing",
        "clients",
        r"Timed out after \d+ seconds waiting for clients\. (?P<here>\d+)/(?P<all>\d+)",
    ),
    Sentence(
        "c10d.store_timeout",
        "errno",
        r"client socket has failed to connect to \[?(?P<addr>[^\]:]+).*errno: 110",
    ),
    Sentence("c10d.rendezvous_timeout", "RendezvousTimeoutError", r"RendezvousTimeoutError"),
    Sentence(
        "c10d.no_first_rank",
        "ncclUniqueId",
        r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[0\].*got err",
    ),
    Sentence("c10d.no_route", "socket", r"client socket.*(?:errno: 113|No route to host)"),
    Sentence("name.unresolved", "resolution", r"[Tt]emporary failure in name resolution"),
    Sentence("name.unresolved", "known", r"[Nn]ame or service not known"),
    Sentence("name.unresolved", "getaddrinfo", r"getaddrinfo.*(?:failed|gai error)"),
    Sentence(
        "name.unresolved",
        "hostname",
        r"(?:could not|cannot|[Ff]ailed to|[Uu]nable to) resolve (?:the )?hostname",
    ),
    Sentence("elastic.failed", "exitcode", r"rank\s*: (?P<rank>\d+).*exitcode\s*: (?P<code>-?\d+)"),
    Sentence(
        "elastic.signal",
        "Signal",
        r"Signal (?P<signal>\d+) \((?P<name>SIG\w+)\) received by PID (?P<killed>\d+)",
    ),
    Sentence(
        "elastic.failed",
        "failed",
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<killed>\d+)\)",
    ),
    Sentence("elastic.rank", "rank", r"^\s+rank\s+: (?P<rank>\d+) \(local_rank: \d+\)"),
    Sentence("elastic.exit", "exitcode", r"^\s+exitcode\s+: (?P<code>-?\d+) \(pid: (?P<killed>\d+)\)"),
    Sentence(
        "torch.monitored_barrier",
        "monitoredBarrier",
        r"[Rr]anks? (?P<ranks>\d+(?:, \d+)*) failed to pass monitoredBarrier",
    ),
    Sentence(
        "fr.lagging",
        "collective",
        r"\[(?P<rank>\d+)\] (?:joined but didn't finish|finished|never joined).*collective",
    ),
    Sentence("fr.not_joined", "desync", r"lagging/dead/mismatched ranks that caused the desync"),
    Sentence(
        "torch.shapes",
        "params",
        r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has \d+ params",
    ),
    Sentence(
        "torch.shapes",
        "sizes",
        r"\[(?P<rank>\d+)\]: params\[\d+\] in this process with sizes .* appears not to match",
    ),
    Sentence(
        "sw.nccl_mismatch",
        "mismatch",
        r"NCCL version mismatch: compiled with (?P<a>[\d.]+) but (?P<b>[\d.]+)",
    ),
    Sentence("sw.undefined_symbol", "undefined", r"undefined symbol: (?P<symbol>nccl\w+)"),
    Sentence("shm.dataloader", "shared", r"out of shared memory"),
    Sentence("shm.dataloader", "shm", r"insufficient shared memory \(shm\)"),
    Sentence(
        "shm.dataloader",
        "shared",
        r"insufficient shared memory \(shm\)|unable to (?:mmap|open shared memory)",
    ),
    Sentence(
        "fr.culprit",
        "Culprit",
        r"Culprit rank (?P<rank>\d+); Error type: (?P<type>\w+)",
    ),
    Sentence("fr.missing", "missing", r"(?:missing ranks|ranks missing)\D*(?P<ranks>[\d, {}\[\]]+)"),
    Sentence(
        "fr.not_joined",
        "ranks",
        r"[Nn]ot all ranks joining collective.*|ranks? (?:did not|never) join(?:ed)?.*",
    ),
    Sentence("ckpt.saving", "aving", r"(?i)\bsaving (?:\w+ ){0,3}checkpoint"),
    Sentence("ckpt.saving", "aving", r"(?i)saving model checkpoint"),
    Sentence("ckpt.saving", "saving", r"(?i)\bsaving (?:\w+ ){0,3}(?:checkpoint|model|state|weights|shard)"),
    Sentence("ckpt.saving", "Saving", r"\bSaving (?:\w+ ){0,3}(?:checkpoint|model|state|weights|shard)"),
    Sentence("ckpt.saving", "Checkpoint", r"Checkpoint \S+ is about to be saved"),
    Sentence("ckpt.saving", "Saving", r"\] \[Torch\] Saving \S+"),
    Sentence("ckpt.saving", "save_checkpoint", r"save_checkpoint|save_state"),
    Sentence(
        "ckpt.saved",
        "saved",
        r"(?i)(?:checkpoint|model|state).*saved|saved (?:\w+ ){0,3}(?:checkpoint|model)",
    ),
    *(
        Sentence("train.resumed", word, r"(?i)(?:load(?:ing|ed)|resum\w+|restor\w+) .*?checkpoint")
        for word in ("checkpoint", "Checkpoint")
    ),
    *(
        Sentence("train.overflow", word, r"(?i)\b(?:gradient |grad )?overflow|loss scale.*reducing to")
        for word in ("overflow", "OVERFLOW", "Overflow", "scale")
    ),
    *(
        Sentence(
            "train.epoch",
            word,
            r"(?i)\b(?:starting|begin\w*|start of) epoch \d+|reshuffl|new data ?(?:set|mix)",
        )
        for word in ("epoch", "Epoch", "reshuffling", "data", "dataset")
    ),
    Sentence("train.epoch_end", "epoch", r"(?i)rank (?P<rank>\d+).*epoch \d+ (?:finished|done|ended)"),
    *(
        Sentence("net.port_taken", word, r"(?:listen|bind).*Address already in use")
        for word in ("bind", "listen")
    ),
    *(
        Sentence("train.nan", word, r"[Ff]ound (?:NaN|Inf) in (?:local )?(?:grad|forward|loss)\w*")
        for word in ("NaN", "Inf")
    ),
    Sentence("train.nan", "scale", r"Current loss scale already at minimum"),
    Sentence("elastic.signal", "SIGNAL", r"KILLED BY SIGNAL: (?P<signal>\d+)"),
    Sentence("elastic.rank", "RANK", r"^=\s+RANK (?P<rank>\d+) PID \d+ RUNNING AT"),
    Sentence(
        "elastic.exit",
        "code",
        r"--local_rank=(?P<local>\d+).*exits with return code = (?P<code>-?\d+)",
    ),
    Sentence(
        "torch.stuck", "stuck", r"Rank (?P<rank>\d+)\].*watchdog got stuck for (?P<seconds>\d+) seconds"
    ),
    *(
        Sentence("job.failed", word, pattern)
        for word, pattern in (
            ("Traceback", r"Traceback \(most recent call last\)"),
            ("terminate", r"terminate called (?:after throwing|without an active)"),
            ("Segmentation", r"Segmentation fault"),
            ("dumped", r"\(core dumped\)"),
            ("ChildFailedError", r"ChildFailedError"),
            ("DistBackendError", r"DistBackendError"),
            ("CUDA", r"CUDA error: \S"),
            ("HIP", r"HIP error: \S"),
            ("MPI_ABORT", r"MPI_ABORT was invoked"),
            ("task", r"srun: error: .*task.*(?:Exited with exit code [1-9]|Killed|Aborted)"),
            ("tasks", r"srun: error: .*tasks.*(?:Exited with exit code [1-9]|Killed|Aborted)"),
            *((word, rf"\b{word}\b") for word in NCCL_ERRORS),
        )
    ),
    Sentence("job.silent", "output", r"(?i)no (?:further|more) output|no output for"),
    Sentence("job.silent", "hangs", r"(?i)^\W*\(?(?:it )?hangs\b"),
    Sentence("job.silent", "hang", r"(?i)^\W*\(?(?:no|process(?:es)?)?\s*hang\b"),
    Sentence("job.silent", "row", r"no (?:data )?rows? after"),
)
