"""Speed as ratios and counts: `make bench`. Each module has `run() -> list[Figure]`."""
