"""Fit the collective model to validation/collectives and write src/assay/fabric/data/collectives.toml."""

from __future__ import annotations

from pathlib import Path

from assay.fabric.parameters import write_parameters
from assay.fabric.published import read_published
from assay.fabric.validate import refit

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/assay/fabric/data/collectives.toml"

#: Read off the flat ends of curves that say how they were launched, not fitted: one process for 8 GPUs
#: (34.5 µs, all-to-all 87 µs), and calls from Python through torch (39 µs).
LAUNCHERS = {"host/thread": 4.3e-6, "host/thread-p2p": 0.41e-6, "host/torch": 39e-6}

HEAD = """Parameters of the collective model, written by validation/fit_collectives.py from the published
measurements in validation/collectives: nccl-tests curves cited per row, and AIConfigurator's tables
(ai-dynamo/aiconfigurator, Apache-2.0). Launchers (host/...) are read off the flat ends of curves that say
how they were launched."""


def main() -> None:
    """Fit, and write the table with its ranges."""
    rows = []
    for name in ("single_node.csv", "measured.csv"):
        text = (HERE / "collectives" / name).read_text(encoding="utf-8")
        rows += read_published(text.splitlines(), name)
    TARGET.write_text(write_parameters(refit(rows, LAUNCHERS), head=HEAD), encoding="utf-8")


if __name__ == "__main__":
    main()
