"""Other programs' text: lines in, records out, no IO. Importing this registers the built-in formats."""

from assay.formats import (  # noqa: F401  (each module registers itself)
    fio,
    gemm_table,
    nccl_tests,
    nccl_tests_json,
    nvbandwidth,
    perftest,
)
