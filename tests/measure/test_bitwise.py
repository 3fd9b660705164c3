"""The same product on every rank, bit for bit; a rank that computes wrong is named when that is judged."""

from assay.catalog.quantities import quantity
from assay.codec.lines import LineDecoder
from assay.domain.reading import Reading
from assay.judge.corruption import find_corruption


def named(measured):
    decoder = LineDecoder()
    files = sorted(measured.folder.glob("rank-*.jsonl"))
    lines = [
        (file.name, n, line) for file in files for n, line in enumerate(file.read_text().splitlines(), 1)
    ]
    records = [decoder.decode(line, file=name, number=n) for name, n, line in lines]
    found = find_corruption([record for record in records if isinstance(record, Reading)])
    return {str(f.subject): f.because.code for f in found}


def test_sound_ranks_agree_to_the_last_bit(run_benchmark):
    measured = run_benchmark("bitwise", ranks=3, cores=3.0, dtypes=["fp32"], shape=[256] * 3, repeats=3)
    assert measured.outcome.whole
    digests = measured.readings("gemm.fp32.digest")
    assert len({d["value"] for d in digests}) == 1
    assert {d["subject"] for d in digests} == {"rank:0", "rank:1", "rank:2"}
    assert {d["recipe"]["shape"] for d in digests} == {"256x256x256"}
    assert [r["value"] for r in measured.readings("gemm.fp32.unlike_repeats")] == [0, 0, 0]
    assert quantity("gemm.fp32.digest").exact
    assert named(measured) == {}


def test_a_wrong_bit_is_found_whether_it_is_always_there_or_sometimes(run_benchmark):
    measured = run_benchmark(
        "bitwise", ranks=3, cores=3.0, corrupt=True, dtypes=["fp32"], shape=[256] * 3, repeats=6
    )
    assert named(measured) == {"rank:1": "because.unlike_itself", "rank:2": "because.unlike_siblings"}
