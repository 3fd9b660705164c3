"""Which layout, which platform, how many GPUs, at what risk and cost, and how to grow: values in, values
out."""
