"""One module per benchmark; importing a module registers it and loads no torch."""

#: The order in which they run: from one card outwards, the longest last.
ORDER = (
    "environment",
    "gemm",
    "bitwise",
    "memory",
    "kernels",
    "parts",
    "host_device",
    "peer",
    "pairs",
    "pairs_alone",
    "groups",
    "choices",
    "collectives",
    "clock",
    "storage",
    "checkpoint",
    "training",
    "soak",
)
