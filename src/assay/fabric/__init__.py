"""The network: its size and shape, what NCCL chooses on it, and what a collective costs."""
