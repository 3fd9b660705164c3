"""Running a job under the watch: started per node, and started again without a node that failed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from assay.api.following import LogSource, Source, follow
from assay.api.watching import Watch, settings_of
from assay.codec.watching import RecoveryPlan
from assay.domain.event import Event
from assay.domain.incident import Change
from assay.domain.ledger import Recovery
from assay.domain.subject import CLUSTER, Subject
from assay.store.ledger import Ledger
from assay.watch.recovery import Do, Phase, Recoverer
from assay.watch.signal import Item
from assay.watch.sources.logs import LogReader, own_pattern
from assay.watch.sources.prometheus import Prometheus, PrometheusSource


class Supervisor:
    """The processes of the job, one per node, as a source of the watch. Ends when the job has."""

    def __init__(self, plan: RecoveryPlan, logs: LogSource, tell: Callable[[str], None]) -> None:
        self._plan, self._logs, self._tell = plan, logs, tell
        self.recoverer = Recoverer(plan=plan)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._recorded = 0
        self.over = False
        self.ok = False

    def start(self) -> None:
        """Start the command on every node that is left."""
        nodes, port = self.recoverer.nodes, self._plan.port + self.recoverer.restarts
        for index, node in enumerate(nodes):
            values = {"node": node, "index": index, "nnodes": len(nodes), "head": nodes[0], "port": port}
            words = [word.format(**values) for word in self._plan.command]
            # A session of its own, so that everything the launcher starts ends with it.
            self._running[node] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def poll(self, now_s: float) -> list[Item]:
        """News of the job's logs and processes; what the recovery wants is done on the way."""
        items = self._logs.poll(now_s)
        self.recoverer.hear([item for item in items if isinstance(item, Event)])
        for node, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[node]
            if code != 0 and self.recoverer.phase is Phase.RUNNING:
                details: dict[str, str | int | float | None] = {"code": code}
                items.append(
                    Event(kind="rank_exited", time_s=now_s, subject=Subject("node", node), details=details)
                )
            elif code == 0 and not self._running and self.recoverer.phase is Phase.RUNNING:
                self.over = self.ok = True
                items.append(Event(kind="job_ended", time_s=now_s, subject=CLUSTER, details={"ok": 1}))
        if self.recoverer.phase is Phase.STOP and not self._running:
            # What the old processes have still written is not the first step of the new ones.
            items += self._logs.poll(now_s)
            self.recoverer.hear([item for item in items if isinstance(item, Event)])
        if self._do(self.recoverer.look(now_s, running=len(self._running))):
            items.append(Event(kind="job_started", time_s=now_s, subject=CLUSTER))
        return items

    def heard(self, change: Change, now_s: float) -> list[Recovery]:
        """An incident changed."""
        self._do(self.recoverer.change(change, now_s))
        return self.finished()

    def finished(self) -> list[Recovery]:
        """Recoveries that have ended since the last call."""
        new = self.recoverer.done[self._recorded :]
        self._recorded += len(new)
        for one in new:
            phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in one.phases.items())
            self._tell(f"recovered from {one.cause} without {', '.join(one.excluded) or 'nobody'}: {phases}")
        return new

    def close(self) -> None:
        """End what still runs."""
        self._signal(signal.SIGKILL)
        for process in self._running.values():
            process.wait()
        self._logs.close()

    def _do(self, what: Do) -> bool:
        """Do it; true when the job was started again."""
        if what is Do.ASK:
            subprocess.run(self._plan.ask, check=False, stdin=subprocess.DEVNULL, timeout=self._plan.ask_s)
        elif what is Do.STOP:
            self._signal(signal.SIGTERM)
        elif what is Do.KILL:
            self._signal(signal.SIGKILL)
        elif what is Do.START:
            self._tell(f"starting again on {', '.join(self.recoverer.nodes)}")
            self.start()
        elif what is Do.GIVE_UP:
            self._tell("giving up: too few nodes are left, or too many restarts were needed")
            self._signal(signal.SIGKILL)
            self.over = True
        return what is Do.START

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def supervise(
    plan: RecoveryPlan,
    tell: Callable[[Change], None],
    say: Callable[[str], None],
    *,
    for_s: float | None = None,
) -> bool:
    """Run the job until it has ended, restarting it as the plan says; true when it ended well."""
    pattern = own_pattern(plan.pattern) if plan.pattern else None
    logs = LogSource(plan.logs, LogReader(pattern=pattern, hosts=plan.addresses))
    supervisor = Supervisor(plan, logs, say)
    books = Ledger(Path(plan.ledger))
    watch = Watch(settings=settings_of(plan.bounds, where=plan.bounds_where), ledger=books, nodes=plan.nodes)
    sources: list[Source] = [supervisor]
    if plan.prometheus:
        sources.append(PrometheusSource(Prometheus(plan.prometheus), every_s=plan.every_s))
    end_s = None if for_s is None else time.time() + for_s

    def told(change: Change) -> None:
        tell(change)
        books.append(supervisor.heard(change, time.time()))

    def pause(seconds: float) -> None:
        books.append(supervisor.finished())
        if not supervisor.over:
            time.sleep(seconds)

    supervisor.start()
    follow(
        watch,
        sources,
        told,
        sleep=pause,
        going=lambda: not supervisor.over and (end_s is None or time.time() < end_s),
    )
    books.append(supervisor.finished())
    return supervisor.ok
