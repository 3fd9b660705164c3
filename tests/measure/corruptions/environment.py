"""The inventory of rank 0 is that of another host."""

from assay.measure.benchmarks import environment


def corrupt(rank):
    right = environment.inventory
    if rank == 0:
        environment.inventory = lambda *, host: right(host=f"{host}-other")
