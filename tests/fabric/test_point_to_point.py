"""Copies and RDMA writes from point to point against published rows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.fabric.point_to_point import bandwidth_Bps, latency_s, link_of, recognise, score_points

FILE = Path(__file__).parents[2] / "validation" / "collectives" / "p2p.csv"


def test_links_are_read_from_words() -> None:
    for words, kind, rate in (
        ("NVLink4 x18", "nvlink", 450e9),
        ("PCIe5 x16", "pcie", 63.0e9),
        ("2x EDR100", "rdma", 25e9),
        ("40G RoCE", "rdma", 5e9),
        ("NVLink-C2C", "c2c", 450e9),
    ):
        link = link_of(words)
        assert link is not None
        assert (link.kind, link.Bps) == (kind, pytest.approx(rate, rel=0.01))
    assert link_of("a string and two cans") is None


@given(size=st.floats(1, 1e9), words=st.sampled_from(["HDR IB", "NDR IB", "100G RoCE"]))
def test_no_message_outruns_its_link(size: float, words: str) -> None:
    link = link_of(words)
    assert link is not None
    assert bandwidth_Bps(link, size, both_ways=False, peers=False) <= link.Bps
    assert latency_s(link, size, gpus=True) >= size / link.Bps
    assert latency_s(link, size, gpus=False) <= latency_s(link, 2 * size, gpus=False)


def test_every_published_row_is_scored_or_says_why_not() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert recognise(lines[0].split(","))
    rows = score_points(lines, "p2p.csv")
    assert len(rows) == len(lines) - 1
    assert all((row.predicted is None) == (row.skipped is not None) for row in rows)
    bandwidths = sorted(abs(e) for row in rows if row.unit == "B/s" and (e := row.error_frac) is not None)
    assert len(bandwidths) > 30
    assert bandwidths[len(bandwidths) // 2] < 0.05


def test_a_row_that_cannot_be_read_is_told_with_its_line() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    broken = lines[60].replace(",2,", ",two,", 1)
    assert broken != lines[60]
    with pytest.raises(InputError, match=r"p2p\.csv:2"):
        score_points([lines[0], broken], "p2p.csv")
