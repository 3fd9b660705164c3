"""`python -m assay` is the `assay` command, so that torchrun and srun can start it."""

from assay.app.cli import main

main()
