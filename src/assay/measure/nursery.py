"""Starts workers by forking a process that has loaded torch already: a load takes seconds, a fork none.

With fresh processes for every rank and restart, loading torch from a busy or a network disk would take longer
than measuring. What makes one restart unlike another is made after the fork: device contexts, process groups,
connections, buffers. Before it no thread of torch is started and no device is touched.

`python -m assay.measure.nursery AGENT_PID` reads JSON lines from its standard input, `{id, spec, place, log,
env}`, and answers each with `{id, pid}` and, when the worker has ended, `{id, code}`. Standard library only.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.measure import worker

NURSERY = (sys.executable, "-m", "assay.measure.nursery")
_LOADED_BEFORE = ("torch", "torch.distributed")


class Born:
    """A worker that a nursery was asked for. `pid` is None until it is there; `code` until it has ended."""

    def __init__(self, end_nursery: Callable[[], object]) -> None:
        self._end_nursery = end_nursery
        self._ended = threading.Event()
        self.pid: int | None = None
        self.code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.code

    def kill(self) -> None:
        """End it and its children; one that is not there yet is ended together with its nursery."""
        if self.pid is None:
            self._end_nursery()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Until it has ended."""
        self._ended.wait()

    def hear(self, answer: Mapping[str, int]) -> None:
        """Take in what the nursery tells."""
        self.pid = answer.get("pid", self.pid)
        if "code" in answer:
            self.code = answer["code"]
            self._ended.set()


class Nursery:
    """The agent's side: starts the process when it is first needed, and again where it was lost.

    `command` with the agent's pid after it is the process, which calls `main`.
    """

    def __init__(self, command: tuple[str, ...] = NURSERY) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        self._born: dict[int, Born] = {}
        self._end: Callable[[], object] = _nothing

    def warm(self, env: Mapping[str, str]) -> None:
        """Have the process load torch from now on, so that it is ready when it is needed."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        self._process = subprocess.Popen(
            [*self._command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
        self._end = weakref.finalize(self, _end, self._process)
        self._born = {}
        threading.Thread(target=_listen, args=(self._process, self._born), daemon=True).start()

    def start(self, spec: Path, place: int, log: Path, env: Mapping[str, str]) -> Born:
        """Ask for a worker; comes back at once, whether or not torch is loaded."""
        self.warm(env)
        born, number = Born(self._end), next(self._numbers)
        self._born[number] = born
        asked = {"id": number, "spec": str(spec), "place": place, "log": str(log), "env": dict(env)}
        try:
            if self._process is None or self._process.stdin is None:
                raise BrokenPipeError
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            born.hear({"code": -signal.SIGKILL})
        return born

    def close(self) -> None:
        """End the process, and with it every worker."""
        self._end()
        self._process, self._end = None, _nothing


def _nothing() -> None:
    """There is no process to end."""


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _listen(process: subprocess.Popen[bytes], born: dict[int, Born]) -> None:
    """Take in every answer; when the process is gone, so are all that it bore: the kernel sees to it."""
    if process.stdout:
        with process.stdout as answers:
            for line in answers:
                answer = json.loads(line)
                born[answer["id"]].hear(answer)
    for one in list(born.values()):
        if one.code is None:
            one.hear({"code": -signal.SIGKILL})


def main(words: list[str]) -> int:
    """Bear workers until the agent hangs up."""
    worker.die_with_parent(int(words[0]))
    answers = os.dup(1)
    os.dup2(2, 1)  # what anything else prints must not get among the answers
    for name in _LOADED_BEFORE:
        with contextlib.suppress(ImportError):  # the worker will say so
            importlib.import_module(name)
    # NumPy's threads wait for work and hold nothing.
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ids: dict[int, int] = {}
    for asked in _requests(woken, answers, ids):
        agent_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            _work(asked, agent_pid)
        with contextlib.suppress(OSError):  # the child does the same, and may have ended already
            os.setpgid(pid, pid)
        ids[pid] = asked["id"]
        _answer(answers, id=asked["id"], pid=pid)
    return 0


def _requests(woken: int, answers: int, ids: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Requests as they come; meanwhile, what became of earlier ones is answered."""
    text = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, code in _ended():
                _answer(answers, id=ids.pop(pid), code=code)
        if 0 in ready:
            more = os.read(0, 1 << 16)
            if not more:
                return
            *lines, text = (text + more).split(b"\n")
            yield from map(json.loads, lines)


def _ended() -> Iterator[tuple[int, int]]:
    """Children that have ended, with their exit codes."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def _answer(answers: int, **told: int) -> None:
    os.write(answers, json.dumps(told).encode() + b"\n")


def _work(asked: Mapping[str, Any], nursery_pid: int) -> None:
    """Be the worker; never comes back."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 256)
        os.environ.clear()
        os.environ.update(asked["env"])
        code = worker.main([asked["spec"], str(asked["place"])], parent=nursery_pid)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - the boundary of a process: its log says what happened
        traceback.print_exc()
    finally:
        # Not through the interpreter's end: that is the nursery's.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
