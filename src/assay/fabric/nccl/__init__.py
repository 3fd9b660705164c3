"""What NCCL makes of a node: its paths, its rings and trees, its cost model and its choice.

Re-implemented from the behaviour of NCCL 2.27 and 2.30 (github.com/NVIDIA/nccl, src/graph, Apache-2.0 and
BSD-3-Clause); bandwidths here are NCCL's own GB/s figures, which say what it believes, not what is true.
"""
