from __future__ import annotations

from pathlib import Path

import pytest
from probing import NODE, find

from assay.probe import Fact, Roots, Text
from assay.probe.clocks import chrony_facts, kernel_clock_facts, ptp_facts, read_clocks

#: The format as chronyc 4.3 prints it; the numbers are made up.
TRACKING = (
    "A9FEA97B,169.254.169.123,4,1732957816.414720833,0.000012345,-0.000004000,0.000020000,-11.250,0.001,0.025,"
    "0.000300000,0.000100000,16.2,Normal"
)

#: As pmc 3.1.1 prints it for a port without a master.
PMC = """\
sending: GET TIME_STATUS_NP
sending: GET PORT_DATA_SET
\t000000.fffe.000000-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP
\t\tmaster_offset              -1250
\t\tingress_time               0
\t\tgmPresent                  false
\t\tgmIdentity                 000000.fffe.000000
\t000000.fffe.000000-1 seq 1 RESPONSE MANAGEMENT PORT_DATA_SET
\t\tportIdentity            000000.fffe.000000-1
\t\tportState               LISTENING
"""


def printed(text: str | None, reason: str | None = None) -> Text:
    return Text(path=Path("/usr/bin/program"), text=text, reason=reason)


def test_chrony_is_read_with_the_sign_of_this_clock() -> None:
    facts = chrony_facts(NODE, printed(TRACKING))
    assert find(facts, "clock.chrony_leap").value == "Normal"
    assert find(facts, "clock.chrony_reference").value == "169.254.169.123"
    assert find(facts, "clock.chrony_stratum").value == 4
    # chrony prints a positive number for a clock that is slow of true time.
    assert find(facts, "clock.chrony_offset").value == pytest.approx(-12.345e-6)
    assert find(facts, "clock.chrony_frequency_error").value == pytest.approx(-11.25e-6)
    assert find(facts, "clock.chrony_error_bound").value == pytest.approx(12.345e-6 + 100e-6 + 150e-6)


@pytest.mark.parametrize("text", ["506 Cannot talk to daemon", "a,b", TRACKING + ",more", ",".join("x" * 14)])
def test_what_is_no_tracking_line_is_a_reason(text: str) -> None:
    offset = find(chrony_facts(NODE, printed(text)), "clock.chrony_offset")
    assert offset.value is None
    assert offset.reason


def test_a_program_that_is_not_there_is_a_reason() -> None:
    offset = find(chrony_facts(NODE, printed(None, "no chronyc on this host")), "clock.chrony_offset")
    assert (offset.value, offset.reason) == (None, "no chronyc on this host")


def test_ptp_is_read() -> None:
    facts = ptp_facts(NODE, printed(PMC))
    assert find(facts, "clock.ptp_port_state").value == "LISTENING"
    assert find(facts, "clock.ptp_grandmaster_present").value == "no"
    assert find(facts, "clock.ptp_offset").value == pytest.approx(-1.25e-6)


def test_a_pmc_without_an_answer_is_a_reason() -> None:
    facts: tuple[Fact, ...] = ptp_facts(NODE, printed("sending: GET TIME_STATUS_NP"))
    assert find(facts, "clock.ptp_offset").reason == "pmc prints no master_offset"


def test_the_kernel_tells_how_wrong_it_may_be() -> None:
    facts = kernel_clock_facts(NODE)
    error = find(facts, "clock.kernel_max_error").value
    assert isinstance(error, float)
    assert 0 <= error <= 3600
    assert find(facts, "clock.kernel_synchronized").value in ("yes", "no")


def test_no_program_is_run_for_another_machines_tree(roots: Roots) -> None:
    facts = read_clocks(NODE, roots, {})
    assert find(facts, "clock.source").value == "tsc"
    reason = find(facts, "clock.chrony_offset").reason
    assert reason is not None
    assert "chronyc" in reason or "root" in reason
