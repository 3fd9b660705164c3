"""The offset that ptp4l logs reaches the detector of clocks."""

from __future__ import annotations

import fake_sysfs
import pytest
from items import T0, changes

from assay.probe.files import Roots
from assay.watch.sources.clock_log import STALE_S, ClockLog, offset_of
from assay.watch.sources.node import NodeReader

LINES = {
    "ptp4l[2352.361]: master offset        -38 s2 freq  -25110 path delay      9130": -38e-9,
    "May  1 10:20:30 n1 ptp4l[1043]: [2352.361] master offset 1200042 s0 freq +0 path delay 5":
        1.200042e-3,
    "ptp4l[5374018.735]: rms  787 max 1208 freq -38601 +/- 1071 delay  -14 +/-   0": 787e-9,
    "phc2sys[2353.1]: CLOCK_REALTIME rms 900000 max 1000000 freq 1 +/- 1 delay 1 +/- 0": None,
    "ptp4l[2350.000]: port 1: UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED": None,
    "step 17 loss 3.25 offset 12": None,
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_ptp4l(line):
    expected = LINES[line]
    assert offset_of(line) == (expected if expected is None else pytest.approx(expected))


def test_a_clock_that_wanders_in_the_log_is_an_incident(tmp_path):
    log = tmp_path / "ptp4l.log"
    log.write_text("ptp4l[1.0]: master offset 99000000 s2 freq 0 path delay 9\n")
    roots = Roots.under(fake_sysfs.build(tmp_path / "m", adapters=0, gpus=0))
    reader = NodeReader("n1", roots=roots, nvml_library="none.so", clock_log=ClockLog(str(log)))
    items = []
    with log.open("a") as file:
        for at in range(40):
            offset = 40 * (-1) ** at if at < 20 else -2_500_000
            file.write(f"ptp4l[{at}.5]: master offset {offset} s2 freq -25110 path delay 9130\n")
            file.flush()
            items += [batch for batch in reader.samples(T0 + at) if batch.metric == "clock_offset_s"]
    reader.close()
    assert len(items) == 40  # one value each time, and what stood in the log before is not of now
    assert max(abs(b.values[0]) for b in items[:20]) == pytest.approx(40e-9)
    (incident,) = {c.incident.id: c.incident for c in changes(items)}.values()
    assert (incident.code, str(incident.subject)) == ("CLOCK_OFFSET", "node:n1")
    assert incident.opened_s - T0 == pytest.approx(21)


def test_of_several_lines_the_furthest_counts_and_a_silent_log_tells_nothing(tmp_path):
    log = tmp_path / "ptp4l.log"
    log.touch()
    clock = ClockLog(str(log))
    assert clock.offset_s(0.0) is None
    log.write_text(
        "ptp4l[1]: master offset 5 s2\nptp4l[2]: master offset -900 s2\nptp4l[3]: master offset 7 s2\n"
    )
    assert clock.offset_s(1.0) == pytest.approx(-900e-9)
    assert clock.offset_s(1.0 + STALE_S) == pytest.approx(-900e-9)
    assert clock.offset_s(1.1 + STALE_S) is None
    clock.close()
