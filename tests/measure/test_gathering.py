"""Who is let into a run, and who is sent away: over real sockets and real pipes on this machine."""

from __future__ import annotations

import socket
import sys
import threading

import pytest

from assay import __version__
from assay.errors import EnvironmentLackError, InputError
from assay.measure.attend import hello_of
from assay.measure.channel import Channel
from assay.measure.crew import Machine
from assay.measure.launchers.job import Job, Reception, connect
from assay.measure.launchers.ssh import Host, HostsReception

# A lead's sockets end with its process, so that a last word is never lost by a reset.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

#: Runs on this machine what ssh would run on {host}.
HERE = "sh -c 'eval \"$*\"' sh"


def job(port: int, rank: int = 0, world: int = 2) -> Job:
    return Job(
        launcher="environment",
        rank=rank,
        world=world,
        local_rank=rank,
        addresses=("127.0.0.1",),
        port=port,
        token="word",
    )


@pytest.fixture
def port() -> int:
    with socket.create_server(("", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def join(port):
    """Joins the job as a rank, as an agent of this version does, or of another."""
    channels: list[Channel] = []
    threads: list[threading.Thread] = []

    def start(rank: int, *, version: str = __version__, host: str = "here") -> None:
        machine = Machine(host=host, ranks=1, cores=1.0, devices=("cpu",), backend="gloo")

        def run() -> None:
            channel, _ = connect(
                job(port, rank), lambda _: hello_of([rank], machine, version=version, token="word"), wait_s=10
            )
            channels.append(channel)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    for channel in channels:
        channel.close()


def test_a_rank_that_does_not_come_is_missing_and_the_others_are_a_crew(port, join):
    reception = Reception(job(port, world=3))
    join(0)
    join(2)
    crew = reception.gather(version=__version__, wait_s=3)
    crew.end()
    assert [seat.rank for seat in crew.world.seats] == [0, 2]
    assert crew.absences()[1].text == "did not start: no word from it within 3 s"


def test_another_version_of_assay_is_named_with_its_host(port, join):
    reception = Reception(job(port))
    join(0)
    join(1, version="0.0.1", host="old")
    with pytest.raises(InputError, match=rf"rank 1 on old runs assay 0\.0\.1, but rank 0 runs {__version__}"):
        reception.gather(version=__version__, wait_s=10)


def test_two_processes_of_one_rank_are_named_with_their_hosts(port, join):
    reception = Reception(job(port))
    join(1, host="one")
    join(1, host="two")
    with pytest.raises(InputError, match=r"two processes say that they are rank 1: on (one|two) and on"):
        reception.gather(version=__version__, wait_s=10)


def test_where_no_rank_0_listens_the_message_says_where_it_was_sought(port):
    with pytest.raises(
        EnvironmentLackError, match=rf"rank 1 found no rank 0 at 127\.0\.0\.1, ports {port + 1}"
    ):
        connect(job(port, 1), lambda _: {}, wait_s=0.3)


def hosts(*names: str) -> tuple[Host, ...]:
    return tuple(Host(name=name, address="127.0.0.1") for name in names)


def test_hosts_that_do_not_answer_are_named_when_none_does():
    reception = HostsReception(hosts("n1", "n2"), ssh="false {host}")
    told = "none of 2 hosts answered: n1 did not answer: false ended with code 1; n2 did not answer: false"
    with pytest.raises(EnvironmentLackError, match=told):
        reception.gather(version=__version__, wait_s=10)
    reception.close()


@pytest.mark.parametrize(
    ("said", "help_"),
    [
        ("n1: Permission denied (publickey).", "ssh-copy-id n1"),
        ("Host key verification failed.", "ssh n1"),
        ("ssh: connect to host n1 port 22: Connection refused", "sshd runs"),
        ("python3: No module named assay", "install assay there"),
        ("sh: 1: /opt/python: not found", "install Python and assay there as they are here, at /opt/python"),
    ],
)
def test_a_host_that_does_not_answer_says_why_and_keeps_its_ranks(said, help_, capfd):
    here = (
        f'sh -c \'if [ $0 = n1 ]; then cat >/dev/null & echo "{said}" >&2; exit 255; fi; {sys.executable} '
        + ("-m assay.api.host_agent 127.0.0.1 1' {host}")
    )
    reception = HostsReception(hosts("n1", "n2"), ssh=here, python="/opt/python", ranks=1)
    crew = reception.gather(version=__version__, wait_s=60)
    crew.end()
    reception.close()
    assert [seat.rank for seat in crew.world.seats] == [1]
    (text,) = [absence.text for rank, absence in crew.absences().items() if rank == 0]
    assert text.startswith(f"host n1 did not answer: sh ended with code 255: {said} (")
    assert help_ in text
    assert f"n1: {said}" in capfd.readouterr().err


def test_one_machine_under_two_names_is_refused():
    reception = HostsReception(hosts("n1", "n2"), ssh=HERE, python=sys.executable, ranks=1)
    with pytest.raises(InputError, match=r"n[12] and n[12] are one machine"):
        reception.gather(version=__version__, wait_s=60)
    reception.close()


def test_another_version_on_a_host_is_named():
    reception = HostsReception(hosts("n1"), ssh=HERE, python=sys.executable, ranks=1)
    with pytest.raises(InputError, match=rf"n1 runs assay {__version__}, but this is 9\.9"):
        reception.gather(version="9.9", wait_s=60)
    reception.close()


def test_an_agent_that_does_not_end_holds_nobody_up():
    stuck = "sh -c 'cat >/dev/null; sleep 600 & wait' sh {host}"
    reception = HostsReception(hosts("n1"), ssh=stuck)
    with pytest.raises(EnvironmentLackError, match=r"n1 did not answer within 0\.2 s"):
        reception.gather(version=__version__, wait_s=0.2)
    reception.close()
