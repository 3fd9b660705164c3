"""The links of a node while channels are laid on them: what a path costs, what is left, what still fits."""

from __future__ import annotations

from assay.fabric.nccl.graph import MOST_CHANNELS, Graph, Pattern
from assay.fabric.nccl.system import MBps, Path, PathType, System, nic_MBps

#: What a path costs: (link, MB/s) for each link that it loads.
_Price = tuple[tuple[int, int], ...]


class Links:
    """Free bandwidth of every link and NIC port of one system."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.n = len(system.gpus)
        self.free = [link.bw for link in system.links]
        self.nic_free = [nic_MBps(nic.rate_Bps) for nic in system.node.nics]
        self.into_cpu = frozenset(link.id for link in system.links if link.end[0] == "CPU")
        self.out_of_cpu = frozenset(link.id for link in system.links if link.start[0] == "CPU")
        self._prices: dict[tuple[int, int, bool], _Price] = {}
        self._echoing = system.capability < 80
        self._taxed = PathType.PHB if system.node.sockets[0].maker == "intel" else None

    def take(self, path: Path, bw: int, *, from_gpu: bool) -> bool:
        """Reserve `bw` MB/s on each link of a path, or nothing."""
        price, free = self._price(path, bw, from_gpu), self.free
        for link, need in price:
            if free[link] < need:
                return False
        for link, need in price:
            free[link] -= need
        return True

    def give(self, path: Path, bw: int, *, from_gpu: bool) -> None:
        """Give back what `take` reserved."""
        for link, need in self._price(path, bw, from_gpu):
            self.free[link] += need

    def _price(self, path: Path, bw: int, from_gpu: bool) -> _Price:
        key = (id(path), bw, from_gpu)
        if key not in self._prices:
            self._prices[key] = self._work_out(path, bw, from_gpu=from_gpu)
        return self._prices[key]

    def _work_out(self, path: Path, bw: int, *, from_gpu: bool) -> _Price:
        """What `bw` costs on each link: Intel's host bridge takes 6/5; old GPUs echo 1/8 of what they get."""
        table = self.system.links
        tax = path.type is self._taxed and from_gpu and any(table[at].end[0] == "CPU" for at in path.links)
        price: list[tuple[int, int]] = []
        for at in path.links:
            link = table[at]
            need = round(bw * 6 / 5) if tax and link.kind is PathType.PIX else bw
            price.append((at, need))
            if self._echoing and not from_gpu and link.end[0] == "GPU":
                back = next(
                    b for b in self.system.out[link.end] if b.end == link.start and b.kind is link.kind
                )
                price.append((back.id, round(need / 8)))
        return tuple(price)

    def is_hopeless(self, trial: Graph, best: Graph) -> bool:
        """Whether no set of channels can better `best`: NCCL would search in vain until its budget is spent.

        Channels are bounded by what the NICs and the GPUs' own links carry; of equals the fewest hops win.
        """
        if trial.pattern is Pattern.NVLS or self.n < 2:
            return False
        most = self._most_channels(trial)
        bound, reached = min(most, trial.high) * trial.bw_intra, best.count * best.bw_intra
        if most < trial.low or bound < reached:
            return True
        alike = trial.pattern is best.pattern and trial.cross == best.cross
        return bound == reached and (not alike or best.count * self._fewest_hops(trial) >= best.hops)

    def _most_channels(self, trial: Graph) -> int:
        hops = self._hops_of(trial)
        most = MOST_CHANNELS
        if self.system.inter:
            bw = trial.bw_inter // 1000 * 1000
            most = sum(free // bw for free in self.nic_free) if bw else most
        if trial.pattern is not Pattern.COLLNET_DIRECT:
            leaving = sum(self._leaving(gpu) // trial.bw_intra for gpu in range(self.n))
            most = min(most, leaving // hops)
            for bridge in (self.into_cpu, self.out_of_cpu):
                least = self._least_use(trial, bridge, hops)
                if least:
                    most = min(most, sum(self.free[at] for at in bridge) // least)
        return most

    def _hops_of(self, trial: Graph) -> int:
        ring = trial.pattern is Pattern.RING and not self.system.inter
        return self.n if ring else self.n - 1

    def _least_use(self, trial: Graph, links: frozenset[int], hops: int) -> int:
        """What one channel takes at least of `links` together."""
        system, gpus = self.system, range(self.n)

        def least(ways: list[Path], bw: int, limit: PathType, *, from_gpu: bool) -> int:
            prices = [self._price(way, bw, from_gpu) for way in ways if way.type <= limit]
            return min((sum(need for at, need in price if at in links) for price in prices), default=0)

        hop = [system.gpu_path(a, b) for a in gpus for b in gpus if a != b]
        total = hops * least(hop, trial.bw_intra, trial.type_intra, from_gpu=True)
        if system.inter:
            enter = [system.from_nic(nic, g) for nic in system.nics for g in gpus]
            leave = [system.to_nic(g, nic) for nic in system.nics for g in gpus]
            total += least(enter, trial.bw_inter, trial.type_inter, from_gpu=False)
            total += least(leave, trial.bw_inter, trial.type_inter, from_gpu=True)
        return total

    def _leaving(self, gpu: int) -> MBps:
        """All that can leave a GPU at once."""
        return sum(link.bw for link in self.system.out[("GPU", gpu)])

    def _fewest_hops(self, trial: Graph) -> int:
        system, n = self.system, self.n
        hop = min(system.gpu_path(a, b).hops for a in range(n) for b in range(n) if a != b)
        if not system.inter:
            return hop * (n if trial.pattern is Pattern.RING else n - 1)
        enter = min(system.from_nic(nic, g).hops for nic in system.nics for g in range(n))
        leave = min(system.to_nic(g, nic).hops for nic in system.nics for g in range(n))
        return hop * (n - 1) + enter + leave * (2 if trial.pattern is Pattern.BALANCED_TREE else 1)
