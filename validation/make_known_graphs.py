"""Write src/assay/fabric/data/nccl_graphs.json: what the search finds for the shipped systems (minutes)."""

from __future__ import annotations

import json
from pathlib import Path

from assay.catalog.clusters import cluster, cluster_ids
from assay.fabric.nccl.climb import find_graphs
from assay.fabric.nccl.known import _ERAS, key_of, row_of

TARGET = Path(__file__).parents[1] / "src/assay/fabric/data/nccl_graphs.json"


def main() -> None:
    """Search every group size and stride that fills nodes evenly."""
    table: dict[str, list[list[float]]] = {}
    for name in cluster_ids():
        node = cluster(name).node
        width = len(node.gpus)
        groups = {
            tuple(at * stride for at in range(count))
            for count in (1, 2, 4, 8)
            for stride in (1, 2, 4)
            if (count - 1) * stride < width and (stride == 1 or count * stride == width)
        }
        for gpus in sorted(groups):
            for inter in (False, True):
                for collnet in {False, inter and len(gpus) == width}:
                    for era in (_ERAS[0], _ERAS[-1]):
                        key = key_of(node, gpus, inter=inter, collnet=collnet, era=era)
                        if key not in table and (inter or len(gpus) > 1):
                            graphs = find_graphs(node, gpus, inter=inter, collnet=collnet, version=era)
                            table[key] = row_of(graphs)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(table[key])}" for key in sorted(table))
    TARGET.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
