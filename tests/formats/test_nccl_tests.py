"""nccl-tests' text, in each of its versions, and the count of ranks that it implies."""

from __future__ import annotations

import pytest
from format_samples import sample
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, InputError
from assay.formats.nccl_record import with_collective
from assay.formats.nccl_tests import parse

HEADER = [
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0",
    "#",
    "# Using devices",
]
HALF = "    time   algbw   busbw #wrong"
COLUMNS = "#       size         count      type   redop    root " + HALF + HALF
FOOTER = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100.5 ", "#"]
LEAD = "  1073741824     268435456     float     sum      -1"
ROW = LEAD + "   4253.0  252.47  441.82      0   4255.4  252.33  441.58      0"


def devices(n: int) -> list[str]:
    return [
        f"#  Rank {r:2} Group  0 Pid   1887 on      host device {r:2} [0x8d] NVIDIA H100" for r in range(n)
    ]


def run(
    rows: list[str], *, ranks: int = 8, program: str = "all_reduce_perf", columns: str = COLUMNS
) -> list[str]:
    start = ["# nccl-tests version 2.17.1 nccl-headers=22803 nccl-library=22803"]
    start.append(f"# Collective test starting: {program}")
    return [*start, *HEADER, *devices(ranks), columns, *rows, *FOOTER]


def test_a_file_of_2021_has_no_root_and_prints_na_for_the_error():
    (found,) = parse(sample("nccl_allreduce.log"), "a.log")
    assert (found.collective, found.ranks, len(found.rows), len(found.devices)) == (None, 8, 34, 8)
    assert found.devices[3].line == 7
    assert found.devices[3].name == "A100-SXM4-40GB"
    assert found.settings is not None
    assert (found.settings.iters, found.settings.agg_iters, found.settings.validation) == (20, None, False)
    last = found.rows[-1]
    assert (last.line, last.bytes, last.redop, last.root) == (50, 8589934592, "sum", None)
    assert last.out_of_place is not None
    assert last.out_of_place.busbw_Bps == pytest.approx(235.26e9)
    assert last.out_of_place.time_s == pytest.approx(63.896e-3)
    assert last.out_of_place.wrong is None
    assert (found.log_lines, found.unread, found.out_of_bounds) == (1, (), 0)


def test_the_callers_collective_is_checked_against_the_ratio_of_bandwidths():
    (found,) = parse(sample("nccl_allreduce.log"), "a.log", "all_reduce")
    assert found.ranks_from == "device list, agrees with busbw/algbw"
    (plain,) = parse(sample("nccl_allreduce.log"), "a.log")
    assert with_collective(plain, "all_reduce", "a.log:1") == found
    with pytest.raises(InputError, match=r"8 ranks, but busbw/algbw is 1\.7499.* no number of ranks"):
        parse(sample("nccl_allreduce.log"), "a.log", "all_gather")


def test_an_old_all_to_all_leaves_its_reduction_column_blank():
    (found,) = parse(sample("nccl_alltoall.log"), "a.log", "all_to_all")
    assert (found.rows[0].bytes, found.rows[0].redop, found.ranks) == (0, None, 8)
    assert found.rows[-1].in_place is not None
    assert found.rows[-1].in_place.busbw_Bps == pytest.approx(226.16e9)


def test_a_broadcast_has_a_root_and_says_nothing_of_the_ranks():
    (found,) = parse(sample("nccl_broadcast.log"), "a.log", "broadcast")
    assert (found.rows[0].redop, found.rows[0].root, found.ranks, found.ranks_from) == (
        None,
        0,
        8,
        "device list",
    )


def test_per_iteration_columns_timestamps_and_mpirun_prefixes():
    (found,) = parse(sample("nccl_2.19_per_iter_mpirun.log"), "a.log")
    assert (found.tool, found.version, found.library_version) == ("nccl-tests", "2.19.6", "2.30.7+cuda12.9")
    assert (found.program, found.collective, found.ranks) == ("all_reduce_perf", "all_reduce", 4)
    assert {device.host for device in found.devices} == {"node0", "node1"}
    row = found.rows[0]
    assert row.timestamp == "2026-07-20 10:15:02"
    assert row.out_of_place is not None
    assert row.out_of_place.wrong == 0
    assert row.out_of_place.iterations is not None
    assert row.out_of_place.iterations.cv_frac == pytest.approx(0.0425)
    assert row.out_of_place.iterations.max_s == pytest.approx(151.2e-6 * 1.2, rel=1e-3)
    assert (found.log_lines, found.unread) == (1, ())


@pytest.mark.parametrize(
    "prefix", ["0: ", " 3: ", "[1,0]<stdout>:", "[0]: ", "[3]", "node-7: ", "2026-01-05T10:11:12.123Z "]
)
def test_a_launchers_prefix_changes_nothing(prefix: str):
    assert parse([prefix + line for line in run([ROW])], "a.log") == parse(run([ROW]), "a.log")


def test_a_row_that_nccl_logged_into_is_put_together_again():
    cut = ROW.index("-1") + 2
    split = [
        ROW[:cut] + "host:12:34 [0] NCCL INFO Channel 00/16",
        "host:12:34 [0] NCCL INFO Connected",
        ROW[cut:],
    ]
    (found,), (whole,) = parse(run(split), "a.log"), parse(run([ROW]), "a.log")
    assert found.rows[0].out_of_place == whole.rows[0].out_of_place
    assert found.log_lines == 2


def test_rccl_names_the_algorithm_after_the_last_column():
    lines = [line.replace("nccl", "rccl") for line in run([ROW + "  RING  SIMPLE  32"])]
    (found,) = parse(lines, "a.log")
    assert (found.tool, found.version) == ("rccl-tests", "2.17.1")
    row = found.rows[0]
    assert (row.algorithm, row.protocol, row.channels) == ("RING", "SIMPLE", 32)


def test_tables_without_the_in_place_half():
    row = " ".join(ROW.split()[:8])
    (found,) = parse(run([row]), "a.log")
    assert found.rows[0].in_place is None
    (bare,) = parse([row, *FOOTER], "a.log")
    assert bare.rows[0].root is None
    assert bare.rows[0].out_of_place == found.rows[0].out_of_place


def test_a_replay_prints_only_the_in_place_half():
    row = f"{ROW[:54]}{' ' * 32}{ROW[-31:]}"
    (found,) = parse(run([row]), "a.log")
    assert found.rows[0].out_of_place is None
    assert found.rows[0].in_place is not None


@pytest.mark.parametrize(
    ("lead", "fields"),
    [("8 2 float sum -1", 13), ("8 2 float sum", 12), ("8 2 float 0", 12), ("8 2 float", 11)],
)
def test_rows_without_a_header_are_told_apart_by_their_number_of_fields(lead: str, fields: int):
    line = f"{lead} 34.5 0.00 0.00 5e-07 34.6 0.00 0.00 N/A"
    assert len(line.split()) == fields
    (found,) = parse([line, *FOOTER], "a.log")
    assert found.rows[0].root == (0 if lead.endswith(" 0") else None)
    assert found.rows[0].redop == ("sum" if "sum" in lead else None)
    with pytest.raises(InputError, match="8, 11, 12 and 13 are known"):
        parse(["8 2 float 1", *FOOTER], "a.log")


def test_a_missing_number_is_none_and_not_zero():
    row = ROW.replace("4255.4  252.33  441.58      0", "   N/A     N/A     N/A    N/A")
    (found,) = parse(run([row]), "a.log")
    assert found.rows[0].in_place is None
    (found,) = parse(run([ROW]), "a.log")
    assert found.avg_busbw_Bps == pytest.approx(100.5e9)


def test_the_old_error_column_is_a_size_not_a_count():
    (found,) = parse(run([ROW[:-1] + "5e-07"], columns=COLUMNS.replace("#wrong", "error")), "a.log")
    assert found.rows[0].in_place is not None
    assert (found.rows[0].in_place.wrong, found.rows[0].in_place.max_error) == (None, 5e-07)


def test_several_runs_in_one_file_stay_apart():
    first, second = parse(run([ROW]) + run([ROW, ROW]), "a.log")
    assert (len(first.rows), len(second.rows)) == (1, 2)
    assert (first.first_line, first.last_line, second.first_line) == (1, 18, 19)


@pytest.mark.parametrize(("ranks", "message"), [(16, "16 ranks, but busbw/algbw is 1.7500"), (2, "= 8.00")])
def test_devices_that_contradict_the_bandwidths_are_refused_with_the_arithmetic(ranks: int, message: str):
    with pytest.raises(InputError, match=message) as caught:
        parse(run([ROW], ranks=ranks), "a.log")
    assert caught.value.where == f"a.log:{len(run([ROW], ranks=ranks))}"


def test_ranks_come_from_the_ratio_where_no_device_is_listed():
    (found,) = parse(run([ROW], ranks=0), "a.log")
    assert (found.ranks, found.ranks_from) == (8, "busbw/algbw")
    (small,) = parse(run(["8 2 float sum -1 34.5 0.01 0.02 0 34.6 0.01 0.02 0"], ranks=0), "a.log")
    assert small.ranks is None
    assert "neither" in small.ranks_from


def test_split_communicators_count_one_group():
    lines = [line.replace("Group  0", f"Group  {i % 2}") for i, line in enumerate(run([ROW], ranks=16))]
    assert parse(lines, "a.log")[0].ranks == 8


def test_a_cut_off_file_says_where_it_ends_and_what_to_do():
    with pytest.raises(
        InputError, match="ends here without its 'Out of bounds values' line, after 1 rows"
    ) as caught:
        parse(run([ROW])[:-3], "a.log")
    assert caught.value.where == "a.log:15"
    assert caught.value.fix is not None


def test_copies_that_print_at_once_are_told_from_a_cut_off_file():
    both = [line for pair in zip(run([ROW]), run([ROW]), strict=True) for line in pair]
    with pytest.raises(InputError, match="after 0 rows") as caught:
        parse(both, "a.log")
    assert "MPI=1" in str(caught.value)


def test_a_failed_run_shows_the_line_that_says_so():
    lines = [
        *run([ROW])[:-3],
        "host: Test NCCL failure common.cu:958 'unhandled system error'",
        " .. host pid 3: Test failure",
    ]
    with pytest.raises(InputError, match="unhandled system error") as caught:
        parse(lines, "a.log")
    assert caught.value.where == "a.log:16"


@pytest.mark.parametrize("damage", [(" 0   4255.4", " 04255.4"), ("441.82", "441.8Z"), ("-1 ", "-1x ")])
def test_a_damaged_row_is_refused_at_its_line(damage: tuple[str, str]):
    with pytest.raises(InputError) as caught:
        parse(run([ROW.replace(*damage)]), "a.log")
    assert caught.value.where == "a.log:15"


def test_strange_lines_are_listed_and_strange_columns_refused():
    (found,) = parse(["Warning: Permanently added 'host'", *run(["Loading modules", ROW])], "a.log")
    assert found.unread == (1, 16)
    with pytest.raises(InputError, match="unknown columns in the header: tflops"):
        parse(run([ROW], columns=COLUMNS + " tflops"), "a.log")


def test_a_wrong_collective_is_refused():
    with pytest.raises(InputError, match="all_gather was said"):
        parse(run([ROW]), "a.log", "all_gather")


def width(value: float, characters: int) -> str:
    """As nccl-tests prints a number: as many of two decimals as fit."""
    texts = [f"{value:{characters}.{digits}f}" for digits in (2, 1, 0)]
    return next(text for text in texts if len(text) <= characters)


@given(
    ranks=st.integers(2, 4096),
    times_us=st.lists(st.floats(1, 9e6), min_size=1, max_size=6),
    program=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "alltoall"]),
    old=st.booleans(),
    wrong=st.integers(0, 5),
)
def test_what_is_printed_is_read_back(ranks: int, times_us: list[float], program: str, old: bool, wrong: int):
    factor = (2 if program == "all_reduce" else 1) * (ranks - 1) / ranks
    rows, expected = [], []
    for i, time_us in enumerate(times_us):
        size = 2 ** (20 + i)
        algbw = size / time_us / 1e3
        body = "  " + "  ".join([width(time_us, 7), width(algbw, 6), width(algbw * factor, 6), f"{wrong:6g}"])
        rows.append(
            f"{size:12}  {size // 4:12}  {'float':>8}  {'sum':>6}" + ("" if old else f"  {-1:>6}") + body * 2
        )
        expected.append((size, float(width(time_us, 7)) * 1e-6, float(width(algbw * factor, 6)) * 1e9))
    columns = COLUMNS.replace("   root", "") if old else COLUMNS
    listed = ranks if ranks <= 64 else 0
    (found,) = parse(run(rows, ranks=listed, program=f"{program}_perf", columns=columns), "x")
    for row, (size, time_s, busbw_Bps) in zip(found.rows, expected, strict=True):
        assert row.bytes == size
        for placement in (row.out_of_place, row.in_place):
            assert placement is not None
            assert placement.time_s == pytest.approx(time_s)
            assert placement.busbw_Bps == pytest.approx(busbw_Bps)
            assert placement.wrong == wrong
    assert found.ranks in ({ranks} if listed else {ranks, None})


def test_errors_of_this_room_are_ours():
    with pytest.raises(AssayError, match="without a row of nccl-tests"):
        parse([], "a.log")
