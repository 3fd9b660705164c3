"""The time of a training step: kernels, workloads, memory, schedules, overlap, and how sure all of it is."""
