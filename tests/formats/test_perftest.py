"""perftest's text."""

from __future__ import annotations

import pytest
from format_samples import sample
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.formats.perftest import parse

BW = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
ROW = " 65536      5000             419.30             361.10 \t\t   0.005778"


def test_server_and_client_one_after_the_other():
    client, server = parse(sample("ib_loopback_8M_size.log"), "b.log")
    for side in (client, server):
        assert (side.program, side.device, side.link_type, side.mtu_bytes, side.sides) == (
            "ib_write_bw",
            "ib0",
            "IB",
            4096,
            1,
        )
        (row,) = side.bandwidth
        assert row.average_Bps == pytest.approx(24056.72 * 2**20)
        assert (row.bytes, row.iterations) == (8388608, 20000)
    assert dict(client.options)["TX depth"] == "128"
    assert (client.bandwidth[0].line, server.bandwidth[0].line) == (18, 39)


def test_server_and_client_line_by_line_share_a_table():
    (found,) = parse(sample("ib_loopback_all_sizes.log"), "b.log")
    assert (found.sides, len(found.bandwidth), found.unread) == (2, 24, ())
    assert [row.bytes for row in found.bandwidth[-2:]] == [8388608, 8388608]


def test_gigabits_and_a_peak_that_was_not_measured():
    (found,) = parse(sample("ib_read_bw_gbits_duration.txt"), "b.log")
    (row,) = found.bandwidth
    assert (found.program, found.bidirectional, row.peak_Bps) == ("ib_read_bw", True, None)
    assert row.average_Bps == pytest.approx(363.47e9 / 8)
    assert row.messages_per_s == pytest.approx(693268)


def test_latency_columns():
    (found,) = parse(sample("ib_write_lat.txt"), "l.log")
    assert (found.program, len(found.latency), found.unread) == ("ib_write_lat", 3, ())
    row = found.latency[0]
    assert (row.bytes, row.iterations, row.line) == (2, 1000, 23)
    assert row.min_s == pytest.approx(1.88e-6)
    assert row.mean_s == pytest.approx(2.03e-6)
    assert row.p99_s == pytest.approx(2.21e-6)
    assert row.p999_s == pytest.approx(5.42e-6)


def test_latency_with_a_duration_has_only_the_mean():
    (found,) = parse(
        [" #bytes        #iterations       t_avg[usec]    tps average", " 2  1000  2.03  492610.84"], "l.log"
    )
    assert (found.program, found.latency[0].p99_s, found.latency[0].transactions_per_s) == (
        None,
        None,
        492610.84,
    )


def test_a_new_table_after_the_rows_is_a_new_run():
    assert [len(each.bandwidth) for each in parse([BW, ROW, ROW, BW, ROW], "b.log")] == [2, 1]


def test_a_key_that_differs_between_the_sides_is_unknown():
    title = "                    RDMA_Write BW Test"
    lines = [title, " Device         : mlx5_0", title, " Device         : mlx5_1", BW, ROW]
    (found,) = parse(lines, "b.log")
    assert found.device is None
    assert found.options == (("Device", "mlx5_0"), ("Device", "mlx5_1"))


def test_noise_is_known_and_strange_lines_are_listed():
    noise = "Conflicting CPU frequency values detected: 3902.477000 != 400.000000. CPU Frequency is not max."
    (found,) = parse(["$ ib_write_bw host", BW, noise, ROW, "done"], "b.log")
    assert found.unread == (1, 5)


def test_numbers_that_run_together_are_refused():
    lines = sample("ib_write_lat.txt")
    lines[22] = " 2  1000  453.06  37330.73  692.41  928.05  2465.901216.65  37330.73"
    with pytest.raises(InputError, match="8 fields in this row, but the table has 9 columns") as caught:
        parse(lines, "l.log")
    assert caught.value.where == "l.log:23"


@pytest.mark.parametrize("column", ["t_avg[cycles]", "t_avg[usec] colour"])
def test_an_unknown_unit_or_column_is_refused(column: str):
    with pytest.raises(InputError, match=r"unknown (unit .cycles.|columns colour)"):
        parse([f" #bytes #iterations {column}", " 2 1000 3.4"], "l.log")


def test_a_run_without_a_row_says_what_the_tool_said():
    lines = ["                    RDMA_Write BW Test", "Couldn't connect to host:18515", BW]
    with pytest.raises(InputError, match=r"no result row; it said .Couldn't connect"):
        parse(lines, "b.log")
    with pytest.raises(InputError, match="without a table"):
        parse(["hello"], "b.log")


@given(st.lists(st.tuples(st.integers(1, 2**23), st.integers(5, 10**6), st.floats(0.01, 9e4)), min_size=1))
def test_what_is_printed_is_read_back(rows: list[tuple[int, int, float]]):
    lines = [BW.replace("MB", "Gb")]
    for size, count, rate in rows:
        lines.append(
            f" {size:<7}    {count:<10}       {0:<7.2f}            {rate:<7.2f}\t\t     {rate / size:<7.6f}"
        )
    (found,) = parse(lines, "b.log")
    assert [(row.bytes, row.iterations) for row in found.bandwidth] == [row[:2] for row in rows]
    for row, (_, _, rate) in zip(found.bandwidth, rows, strict=True):
        assert row.average_Bps == pytest.approx(round(rate, 2) * 1e9 / 8)
        assert row.peak_Bps is None
