"""A run over many processes: rank 0 gathers the others, and the others attend to it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from assay import __version__
from assay.api.machine import this_rank
from assay.errors import AssayError, RunError
from assay.measure.attend import Attended, attend, hello_of
from assay.measure.channel import Message
from assay.measure.crew import WORKER
from assay.measure.launchers.job import Job, Reception, connect, job_of
from assay.measure.launchers.ssh import SSH, HostsReception, read_hosts
from assay.measure.remote import RemoteCrew
from assay.store.run import Manifest, create_run, manifest_of, plain_manifest, read_manifest


def this_job() -> Job | None:
    """This process's place in the job that a launcher started; None where there is no launcher."""
    return job_of(os.environ)


def attend_job(
    job: Job, *, out: Path | None, wait_s: float, worker: tuple[str, ...] | None = None
) -> Attended:
    """Be the agent of one rank until the run is over; `out` None takes the folder that rank 0 names."""
    machine = this_rank(job.local_rank, address="")

    def hello(address: str) -> Message:
        here = dataclasses.replace(machine, address=address)
        return hello_of([job.rank], here, version=__version__, token=job.token)

    channel, address = connect(job, hello, wait_s=wait_s)
    return attend(
        channel,
        machine=dataclasses.replace(machine, address=address),
        folder_for=lambda welcome: run_folder(welcome, out),
        worker=worker or WORKER,
    )


def run_folder(welcome: Message, out: Path | None) -> Path:
    """The run folder of this machine: that of rank 0 where it can be seen here, or one of the same run."""
    folder = out or Path(welcome["folder"])
    manifest = manifest_of(welcome["manifest"])
    try:
        create_run(folder, manifest)
    except RunError:
        # Rank 0, or another rank of this machine, has made it; anything else there is left alone.
        if read_manifest(folder).run != manifest.run:
            raise
    return folder


class Gathering:
    """The crew that a lead has gathered: the ranks of a job of which it is rank 0, or hosts over ssh.

    In a job the lead's own rank attends in a thread of this process. `tell` is told of hosts that do not
    answer.
    """

    def __init__(self, reception: Reception | HostsReception, *, wait_s: float) -> None:
        self._reception = reception
        with self.refusing():
            self.crew: RemoteCrew = reception.gather(version=__version__, wait_s=wait_s)

    @classmethod
    def of_job(cls, job: Job, *, out: Path, wait_s: float, worker: tuple[str, ...] | None) -> Gathering:
        """The ranks of a job, of which this process is rank 0."""
        reception = Reception(job)
        how = {"out": out, "wait_s": wait_s, "worker": worker}
        threading.Thread(target=_attend_beside, args=(job,), kwargs=how, daemon=True).start()
        return cls(reception, wait_s=wait_s)

    @classmethod
    def of_hosts(cls, hosts: Path, *, ssh: str | None, ranks: int | None, wait_s: float) -> Gathering:
        """The hosts of a file, over ssh or what is given in its stead."""
        return cls(HostsReception(read_hosts(hosts), ssh=ssh or SSH, ranks=ranks), wait_s=wait_s)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Where the run cannot begin, tell the others why."""
        try:
            yield
        except AssayError as error:
            self._reception.refuse(str(error))
            raise

    def welcomed(self, folder: Path, manifest: Manifest) -> RemoteCrew:
        """The crew, once every agent knows the run and has its folder."""
        self.crew.welcome(folder.absolute(), manifest.run, plain_manifest(manifest))
        return self.crew

    def close(self) -> None:
        """Let everyone go."""
        self.crew.end()
        self._reception.close()


def _attend_beside(job: Job, *, out: Path, wait_s: float, worker: tuple[str, ...] | None) -> None:
    try:
        attend_job(job, out=out, wait_s=wait_s, worker=worker)
    except AssayError as error:
        print(f"assay: rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201 - a thread has no caller
