"""Machines that cannot reach each other are named before anything is measured: over real sockets."""

from __future__ import annotations

import queue
import socket
import threading
from dataclasses import dataclass

import pytest

from assay.errors import EnvironmentLackError
from assay.measure.channel import Channel, Inbox
from assay.measure.reach import Listener, unreachable

# A lead's sockets end with its process, so that a last word is never lost by a reset.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed <socket:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def connected() -> tuple[Channel, Channel]:
    """The two ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return Channel.over(near), Channel.over(far)


@dataclass
class Machine:
    """One that joined, as the lead sees it."""

    channel: Channel
    host: str
    address: str = "127.0.0.1"


class Deaf(Listener):
    """Tells of a port on which nobody listens, as behind a firewall that rejects."""

    def hear(self, message):
        super().hear(message)
        self.close()


class Gone(Listener):
    """Never answers."""

    def hear(self, message):
        pass


@pytest.fixture
def cluster():
    """Makes machines with agents that listen, or are deaf; and the lead's inbox."""
    inbox: Inbox = queue.SimpleQueue()
    ends: list[Channel] = []
    listeners: list[Listener] = []
    threads: list[threading.Thread] = []

    def make(*kinds: type[Listener]) -> tuple[list[Machine], Inbox]:
        machines = []
        for at, kind in enumerate(kinds):
            near, far = connected()
            machines.append(Machine(channel=near, host=f"h{at}"))
            listener = kind(far)

            def agent(far: Channel = far, listener: Listener = listener) -> None:
                while (message := far.receive()) is not None:
                    listener.hear(message)

            near.listen(inbox)
            ends.extend((near, far))
            listeners.append(listener)
            threads.append(threading.Thread(target=agent))
            threads[-1].start()
        return machines, inbox

    yield make
    for end in ends:
        end.close()
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def test_machines_that_reach_each_other_are_not_named_and_other_messages_are_kept(cluster):
    machines, inbox = cluster(Listener, Listener, Listener)
    inbox.put((machines[1].channel, {"type": "fates"}))
    assert unreachable(machines, inbox) == {}
    assert inbox.get_nowait() == (machines[1].channel, {"type": "fates"})


def test_one_that_cannot_be_reached_is_named_with_its_port_and_what_helps(cluster):
    machines, inbox = cluster(Listener, Listener, Deaf)
    ((host, fault),) = unreachable(machines, inbox).items()
    assert host == "h2"
    assert fault.startswith("h0 cannot reach h2: 127.0.0.1 port ")
    assert "let the machines reach each other on all TCP ports" in fault


def test_where_nobody_reaches_the_first_it_is_the_one_that_is_shut_off(cluster):
    machines, inbox = cluster(Deaf, Listener, Listener)
    with pytest.raises(EnvironmentLackError, match=r"no machine can reach h0 .*: h1 cannot reach h0: 127\."):
        unreachable(machines, inbox)


def test_ranks_of_one_machine_need_no_network(cluster):
    machines, inbox = cluster(Deaf, Deaf)
    machines[1].host = "h0"
    assert unreachable(machines, inbox) == {}


def test_where_all_are_gone_before_they_answer_nobody_is_called_unreachable(cluster):
    machines, inbox = cluster(Gone, Gone)
    for machine in machines:
        inbox.put((machine.channel, None))
    assert unreachable(machines, inbox) == {}
