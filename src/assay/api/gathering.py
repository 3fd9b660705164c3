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
        ranks=[job.rank],
        machine=dataclasses.replace(machine, address=address),
        folder_for=lambda welcome: _folder(welcome, out),
        worker=worker or WORKER,
    )


def _folder(welcome: Message, out: Path | None) -> Path:
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
    """The crew that rank 0 of a job has gathered; its own rank attends in a thread of this process."""

    def __init__(self, job: Job, *, out: Path, wait_s: float, worker: tuple[str, ...] | None) -> None:
        self._reception = Reception(job)
        threading.Thread(
            target=self._attend,
            args=(job,),
            kwargs={"out": out, "wait_s": wait_s, "worker": worker},
            daemon=True,
        ).start()
        with self.refusing():
            self.crew: RemoteCrew = self._reception.gather(version=__version__, wait_s=wait_s)

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

    def _attend(self, job: Job, *, out: Path, wait_s: float, worker: tuple[str, ...] | None) -> None:
        try:
            attend_job(job, out=out, wait_s=wait_s, worker=worker)
        except AssayError as error:
            print(f"assay: rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201 - a thread has no caller
