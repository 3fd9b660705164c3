"""fio's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_samples import sample

from assay.errors import InputError
from assay.formats.fio import FioJob, parse


def job_of(**changes: Any) -> FioJob:
    document = json.loads("\n".join(sample("fio_randread.json")))
    document["jobs"][0] |= changes
    return parse(json.dumps(document, indent=1).splitlines(), "f.json")[0].jobs[0]


def test_a_random_read_with_group_reporting():
    (report,) = parse(sample("fio_randread.json"), "f.json")
    assert (report.version, report.disks, report.unread) == ("fio-3.33", ("vda",), ())
    (job,) = report.jobs
    assert (job.name, job.line, job.rw, job.bs_bytes, job.iodepth) == ("rr", 8, "randread", 4096, 16)
    assert (job.numjobs, job.direct, job.ioengine, job.size_bytes) == (2, True, "libaio", 32 * 2**20)
    assert job.merged
    assert job.did_work
    assert job.write is None
    assert job.read is not None
    assert job.read.iops == pytest.approx(108011.494253)
    assert job.read.bandwidth_Bps == pytest.approx(job.read.iops * 4096, rel=1e-3)
    assert job.read.clat is not None
    assert job.read.clat.percentile_s(50) == pytest.approx(276480e-9)
    assert job.read.clat.percentile_s(99.123) is None
    assert job.system_cpu_frac is not None
    assert 0 < job.system_cpu_frac < 1


def test_global_options_count_and_a_jobs_own_win():
    (report,) = parse(sample("fio_jobfile.json"), "f.json")
    first, second = report.jobs
    assert (first.bs_bytes, first.rw, first.direct) == (128 * 1024, "read", True)
    assert (second.bs_bytes, second.rw, second.iodepth) == (4096, "randrw", 4)
    assert second.read is not None
    assert second.write is not None
    assert first.line < second.line


def test_a_job_that_did_nothing_has_no_rate_although_fio_says_zero():
    (report,) = parse(sample("fio_failed.json"), "f.json")
    (job,) = report.jobs
    assert (job.error, job.read, job.did_work) == (0, None, False)
    assert report.unread == (1,)


def test_an_error_code_is_carried():
    job = job_of(error=5)
    assert (job.error, job.did_work) == (5, False)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"bs": "4096"}, 4096),
        ({"bs": "1MB"}, 2**20),
        ({"bs": "128KiB"}, 128_000),
        ({"bs": "4k", "kb_base": "1000"}, 4000),
        ({"bs": "4ki"}, 4096),
        ({"bs": "4KiB", "kb_base": "1000"}, 4096),
        ({"bs": "4k,8k"}, None),
        ({"blocksize": "8k"}, 8192),
        ({}, 4096),
    ],
)
def test_sizes_follow_fios_own_units(options: dict[str, str], size: int | None):
    assert job_of(**{"job options": options}).bs_bytes == size


def test_without_options_nothing_is_assumed():
    job = job_of(**{"job options": None})
    assert (job.rw, job.bs_bytes, job.iodepth, job.direct) == (None, None, None, None)


def test_microseconds_of_fio_2():
    read = {
        "iops": 10.0,
        "total_ios": 5,
        "bw": 40,
        "clat": {"min": 1, "percentile": {"99.000000": 200, "0.00": 0}},
    }
    job = job_of(read=read)
    assert job.read is not None
    assert job.read.bandwidth_Bps == 40 * 1024
    assert job.read.clat is not None
    assert job.read.clat.percentiles_s == ((99.0, pytest.approx(200e-6)),)


@pytest.mark.parametrize("end", [30, 100, 200])
def test_a_cut_off_file_is_refused_at_its_last_line(end: int):
    with pytest.raises(InputError, match="the JSON stops here") as caught:
        parse(sample("fio_randread.json")[:end], "f.json")
    assert caught.value.where == f"f.json:{end}"


def test_other_json_is_refused():
    with pytest.raises(InputError, match="lacks fio version, jobs"):
        parse(["{}"], "f.json")
    with pytest.raises(InputError, match="no JSON object"):
        parse(["terse;output"], "f.json")
    with pytest.raises(InputError, match="client/server"):
        parse(['{"fio version": "x", "client_stats": []}'], "f.json")
