"""NCCL's depth-first search for channels that the links of a node can carry at the same time.

What it finds depends on the order in which it tries things and on its budget of steps, so both are kept.
Source: NCCL src/graph/search.cc.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.fabric.nccl.graph import MOST_CHANNELS, Graph, Pattern
from assay.fabric.nccl.links import Links
from assay.fabric.nccl.system import Path, PathType, System, local_gpu, nic_of_channel

#: Steps for the first channel in PCIe order, which is tried apart.
_STEPS_FIRST = 1 << 10

#: NCCL stops when a solution cannot be bettered; so does this budget.
PERFECT = -1


@dataclass(slots=True)
class _Budget:
    left: int


class Search:
    """One system's channels, tried one after the other."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.n = len(system.gpus)
        self.links = Links(system)
        self.home = [local_gpu(system, nic) for nic in system.nics]
        self.nics_of_gpu = [self._channels_nics(gpu) for gpu in range(self.n)] if system.inter else []
        self.order: dict[tuple[PathType, int], list[int]] = {}
        self.work = Graph(pattern=Pattern.RING)
        self.best = Graph(pattern=Pattern.RING)
        self.used = [0] * self.n
        self.tried: dict[tuple[object, ...], int] = {}

    def _channels_nics(self, gpu: int) -> list[int]:
        found: list[int] = []
        for channel in range(64):
            nic = nic_of_channel(self.system, gpu, channel)
            if found and nic == found[0]:
                break
            found.append(nic)
        return found

    def _follow(self, path: Path, back: Path | None, bw: int, limit: PathType, *, from_gpu: bool) -> bool:
        work = self.work
        if path.type >= PathType.DIS or path.type > limit:
            return False
        tree = work.pattern in (Pattern.BALANCED_TREE, Pattern.TREE, Pattern.SPLIT_TREE)
        if tree and back is not None and back.type > limit:
            return False
        if not self.links.take(path, bw, from_gpu=from_gpu):
            return False
        work.hops += path.hops
        return True

    def _unfollow(self, path: Path, bw: int, *, from_gpu: bool) -> None:
        self.links.give(path, bw, from_gpu=from_gpu)
        self.work.hops -= path.hops

    def run(self, start: Graph, best: Graph, budget: int) -> tuple[Graph, int]:
        """The best of `best` and what `start`'s settings allow, and what is left of the budget."""
        self.work, self.best = start, best
        if self.links.is_hopeless(start, best):
            return best, budget
        again = self._question(start, best)
        if again in self.tried:
            return best, self.tried[again]
        start.gpus = [[0] * self.n for _ in range(MOST_CHANNELS * 2)]
        start.nics = [[0, 0] for _ in range(MOST_CHANNELS * 2)]
        start.count = 0
        start.hops = 0
        time = _Budget(budget)
        self._next_channel(time)
        if self.best is best:
            self.tried[again] = time.left
        return self.best, time.left

    def _question(self, trial: Graph, best: Graph) -> tuple[object, ...]:
        """What decides a search's outcome; limits count as the farthest path that they let in."""
        system, n = self.system, self.n
        near = [system.gpu_path(a, b).type for a in range(n) for b in range(n) if a != b]
        far = [
            way.type
            for nic in system.nics
            for g in range(n)
            for way in (system.to_nic(g, nic), system.from_nic(nic, g))
        ]
        intra = max((t for t in near if t <= trial.type_intra), default=PathType.LOC)
        inter = max((t for t in far if t <= trial.type_inter), default=PathType.LOC)
        asked = (trial.pattern, trial.bw_intra, trial.bw_inter, intra, inter, trial.cross, trial.same)
        return (*asked, trial.low, trial.high, best.pattern, best.count, best.bw_intra, best.hops, best.cross)

    def _next_channel(self, time: _Budget) -> None:
        work, n = self.work, self.n
        to_nic, to_first = self._returns()
        if self.system.inter:
            self._from_nics(to_nic, to_first, time)
            return
        if work.pattern is Pattern.NVLS:
            self._enter(None, work.count, to_nic, to_first, "", time)
            return
        if work.count == 0:
            self._enter(None, 0, to_nic, to_first, "pci", time)
        else:
            self._enter(None, work.gpus[work.count - 1][0], to_nic, to_first, "replay", time)
        if not work.same or work.count == 0:
            for gpu in range(n):
                self._enter(None, gpu, to_nic, to_first, "", time)

    def _returns(self) -> tuple[int, int]:
        """The step at which a channel goes back to a NIC, and that at which it closes on its first GPU."""
        ring = self.work.pattern is Pattern.RING
        if self.system.inter:
            if ring:
                return self.n - 1, -1
            return (1 if self.work.pattern is Pattern.SPLIT_TREE else 0), -1
        return -1, self.n - 1 if ring else -1

    def _from_nics(self, to_nic: int, to_first: int, time: _Budget) -> None:
        work = self.work
        headed = work.pattern in (Pattern.NVLS, Pattern.COLLNET_DIRECT)
        bw = work.bw_inter // 1000 * 1000
        nics = self._nics_to_try(None)
        entered = False
        for i in range(len(nics)):
            if headed and entered:
                break
            nic = nics[(work.count + i) % len(nics)]
            if self.links.nic_free[nic] < bw:
                continue
            odd = work.count & 1
            crossing = work.pattern is Pattern.RING and work.cross == 2
            if crossing and odd and nic != work.nics[work.count - 1][1]:
                continue
            work.nics[work.count][0] = nic
            work.latency_s = self.system.node.nics[nic].latency_s
            self.links.nic_free[nic] -= bw
            if headed:
                entered = self._head(nic, nics, to_nic, to_first, time) or entered
            else:
                self._from_nic(nic, to_nic, to_first, time)
            self.links.nic_free[nic] += bw

    def _head(self, nic: int, nics: list[int], to_nic: int, to_first: int, time: _Budget) -> bool:
        work, gpu = self.work, self.home[nic]
        taken = [work.gpus[c][0] for c in range(work.count)]
        if work.count >= len(nics) or gpu is None or gpu in taken:
            return False
        self._enter(nic, gpu, to_nic, to_first, "", time)
        return True

    def _from_nic(self, nic: int, to_nic: int, to_first: int, time: _Budget) -> None:
        work, system = self.work, self.system
        if work.count > 0 and work.same:
            self._enter(nic, work.gpus[work.count - 1][0], to_nic, to_first, "replay", time)
            return
        if work.count == 0 and not system.has_nvswitch:
            first = _Budget(_STEPS_FIRST)
            self._enter(nic, 0, to_nic, to_first, "pci", first)
            if first.left == PERFECT:
                time.left = PERFECT
        home = self.home[nic]
        if home is not None:
            self._enter(nic, home, to_nic, to_first, "", time)
        paths = [system.from_nic(nic, g) for g in range(self.n)]
        near = min((-p.bw, p.type) for p in paths)
        for gpu, path in enumerate(paths):
            if (-path.bw, path.type) == near and gpu != home:
                self._enter(nic, gpu, to_nic, to_first, "", time)

    def _enter(
        self, nic: int | None, gpu: int, to_nic: int, to_first: int, order: str, time: _Budget
    ) -> None:
        work = self.work
        flag = 1 << work.count
        if nic is not None:
            path, bw = self.system.from_nic(nic, gpu), work.bw_inter
            if not self._follow(path, self.system.to_nic(gpu, nic), bw, work.type_inter, from_gpu=False):
                return
        self.used[gpu] ^= flag
        self._at(gpu, 0, to_nic, to_first, order, time)
        self.used[gpu] ^= flag
        if nic is not None:
            self._unfollow(path, bw, from_gpu=False)

    def _hop(self, a: int, b: int, step: int, to_nic: int, to_first: int, order: str, time: _Budget) -> None:
        work, path = self.work, self.system.gpu_path(a, b)
        bw, flag = work.bw_intra, 1 << work.count
        if not self._follow(path, self.system.gpu_path(b, a), bw, work.type_intra, from_gpu=True):
            return
        self.used[b] ^= flag
        self._at(b, step, to_nic, to_first, order, time)
        self.used[b] ^= flag
        self._unfollow(path, bw, from_gpu=True)

    def _at(self, gpu: int, step: int, to_nic: int, to_first: int, order: str, time: _Budget) -> None:
        """At the step-th GPU of a channel: leave to a NIC, go to the next GPU, close the ring, or be done."""
        if time.left <= 0:
            return
        time.left -= 1
        work, n = self.work, self.n
        if step == n:
            self._finish(time)
            return
        work.gpus[work.count][step] = gpu
        if step == to_nic:
            if self.system.inter:
                self._leave(gpu, step, to_first, order, time)
        elif work.pattern is Pattern.NVLS:
            self._nvls(gpu, time)
        elif work.pattern is Pattern.COLLNET_DIRECT:
            self._collnet_direct(gpu, time)
        elif step < n - 1:
            for peer in self._candidates(gpu, step, to_nic, order):
                self._hop(gpu, peer, step + 1, to_nic, to_first, order, time)
        elif step == to_first:
            first = work.gpus[work.count][0]
            path = self.system.gpu_path(gpu, first)
            back = self.system.gpu_path(first, gpu)
            if self._follow(path, back, work.bw_intra, work.type_intra, from_gpu=True):
                self._at(first, step + 1, to_nic, -1, order, time)
                self._unfollow(path, work.bw_intra, from_gpu=True)
        else:
            self._at(gpu, n, -1, -1, order, time)

    def _finish(self, time: _Budget) -> None:
        work = self.work
        work.count += 1
        if self._is_better():
            self.best = work.copy()
            if work.count == work.high:
                time.left = PERFECT
        if work.count < work.high:
            self._next_channel(time)
        work.count -= 1

    def _is_better(self) -> bool:
        work, best = self.work, self.best
        if work.count < work.low:
            return False
        if work.pattern is Pattern.NVLS:
            more = best.count < work.count <= self.n
            return more or work.count * work.bw_inter > best.count * best.bw_inter
        mine, theirs = work.count * work.bw_intra, best.count * best.bw_intra
        if mine != theirs:
            return mine > theirs
        return work.pattern is best.pattern and work.cross == best.cross and work.hops < best.hops

    def _leave(self, gpu: int, step: int, to_first: int, order: str, time: _Budget) -> None:
        work = self.work
        start = work.nics[work.count][0]
        balanced = work.pattern is Pattern.BALANCED_TREE
        # A balanced tree leaves from its first two GPUs, half of the traffic each.
        bw = work.bw_inter // 2 if balanced else work.bw_inter
        following = 1 if balanced and step == 0 else -1
        for nic in self._nics_to_try(gpu):
            if not self._may_leave_by(nic, start, step):
                continue
            path, back = self.system.to_nic(gpu, nic), self.system.from_nic(nic, gpu)
            if self._follow(path, back, bw, work.type_inter, from_gpu=True):
                work.nics[work.count][1] = nic
                self._at(gpu, step, following, to_first, order, time)
                self._unfollow(path, bw, from_gpu=True)

    def _may_leave_by(self, nic: int, start: int, step: int) -> bool:
        work = self.work
        if work.pattern is Pattern.TREE and nic != start:
            return False
        if work.pattern is Pattern.RING and work.cross == 2:
            if work.count & 1 and nic != work.nics[work.count - 1][0]:
                return False
        elif work.cross == 0 and nic != start:
            return False
        return not (work.pattern is Pattern.BALANCED_TREE and step != 0 and nic != work.nics[work.count][1])

    def _nics_to_try(self, gpu: int | None) -> list[int]:
        """NIC ports in NCCL's order: the GPUs' own first, then by distance up to the current limit."""
        limit = self.work.type_inter
        key = (limit, -1 if gpu is None else gpu)
        if key not in self.order:
            who = range(self.n) if gpu is None else (gpu,)
            found = dict.fromkeys(nic for g in who for nic in self.nics_of_gpu[g])
            for distance in range(limit + 1):
                for g in who:
                    far = (nic for nic in self.system.nics if self.system.to_nic(g, nic).type == distance)
                    found.update(dict.fromkeys(far))
            self.order[key] = list(found)
        return self.order[key]

    def _candidates(self, gpu: int, step: int, to_nic: int, order: str) -> list[int]:
        work, n = self.work, self.n
        if order == "pci":
            return [step + 1]
        if order == "replay":
            return [work.gpus[work.count - 1][step + 1]]
        if self.system.has_nvswitch:
            return self._neighbours(gpu)
        sort_net = 0 if to_nic == -1 else 1 if to_nic == step + 1 else -1
        flag = 1 << work.count
        scored = []
        for i in range(1, n):
            peer = (gpu + i) % n
            if self.used[peer] & flag:
                continue
            path = self.system.gpu_path(gpu, peer)
            near = (-(path.bw // 1000), path.hops)
            scored.append(((*self._nic_score(peer, sort_net), *near, i), near, peer))
        scored.sort()
        peers = [peer for _, _, peer in scored]
        if sort_net == -1 and len({near for _, near, _ in scored}) == 1:
            peers.reverse()
        return peers

    def _nic_score(self, gpu: int, sort_net: int) -> tuple[int, int, int]:
        if not sort_net:
            return 0, 0, 0
        path = self.system.from_nic(self.work.nics[self.work.count][0], gpu)
        slot = next(k for k in self.system.out[("GPU", gpu)] if k.kind is PathType.PIX)
        return -(path.bw // 1000), -(slot.bw // 1000), path.hops

    def _neighbours(self, gpu: int) -> list[int]:
        """On an NVSwitch only the neighbours in index are tried: next and previous."""
        after, before = (gpu + 1) % self.n, (gpu - 1) % self.n
        if self.work.pattern is Pattern.RING:
            wanted = [after, before]
        elif self.work.pattern in (Pattern.SPLIT_TREE, Pattern.BALANCED_TREE):
            wanted = [before, after]
        else:
            wanted = [after]
        if after == before:
            wanted = wanted[:1]
        flag = 1 << self.work.count
        return [peer for peer in reversed(wanted) if not self.used[peer] & flag]

    def _nvls(self, head: int, time: _Budget) -> None:
        """Every GPU sends to and hears from the switch; the head twice."""
        bw, limit, laid = self.work.bw_intra, self.work.type_intra, []
        ways = [(("NVS", 0), ("GPU", g), g) for g in range(self.n)]
        ways += [(("GPU", g), ("NVS", 0), g) for g in range(self.n)]
        for start, end, g in ways:
            path, need = self.system.paths[start, end], bw * (2 if g == head else 1)
            if not self._follow(path, None, need, limit, from_gpu=start[0] == "GPU"):
                break
            laid.append((path, need, start[0] == "GPU"))
        if len(laid) == len(ways):
            self._at(head, self.n, -1, -1, "", time)
        for path, need, from_gpu in reversed(laid):
            self._unfollow(path, need, from_gpu=from_gpu)

    def _collnet_direct(self, head: int, time: _Budget) -> None:
        """The head exchanges a share with every other GPU."""
        work = self.work
        share, laid = round(work.bw_intra / max(self.n - 1, 1)), []
        pairs = [(head, g) for g in range(self.n)] + [(g, head) for g in range(self.n)]
        for a, b in pairs:
            path = self.system.gpu_path(a, b)
            if not self._follow(path, None, share, work.type_intra, from_gpu=True):
                break
            laid.append(path)
        if len(laid) == len(pairs):
            work.gpus[work.count][1:] = [g for g in range(self.n) if g != head]
            self._at(head, self.n, -1, -1, "", time)
        for path in reversed(laid):
            self._unfollow(path, share, from_gpu=True)
