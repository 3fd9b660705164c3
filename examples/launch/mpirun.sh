#!/bin/bash
# Assay by Open MPI's mpirun: mpirun.sh HOSTFILE ADDRESS_OF_FIRST_HOST [WORDS OF qualify…]
# Assay itself makes no MPI call; mpirun only starts the ranks and tells them their numbers.
set -eu
hosts=$1 first=$2
shift 2
exec mpirun --hostfile "$hosts" --map-by "ppr:${GPUS:-8}:node" --bind-to none \
    -x MASTER_ADDR="$first" -x MASTER_PORT=29500 -x PATH -x LD_LIBRARY_PATH \
    python -m assay qualify "$@"
