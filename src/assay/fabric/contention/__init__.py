"""Who gets how much of shared links: max-min fair shares, folded by symmetry."""
