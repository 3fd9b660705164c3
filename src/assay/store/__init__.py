"""Run folders: append-only lines and raw samples, which are the truth of every measurement."""
