#!/bin/bash
# Assay by torchrun, on each of the nodes: torchrun.sh NODES NODE_RANK ADDRESS_OF_NODE_0 [WORDS OF qualify…]
set -eu
nodes=$1 rank=$2 first=$3
shift 3
exec python -m torch.distributed.run --nnodes "$nodes" --node-rank "$rank" --nproc-per-node "${GPUS:-8}" \
    --master-addr "$first" --master-port 29500 --max-restarts 0 -m assay qualify "$@"
