"""Text of many tools in one file: each part is read by its reader, and what nobody takes is counted."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import json
from collections import Counter

import pytest

from assay.errors import InputError
from assay.formats.artefact import Reading, read
from assay.formats.bandwidth_text import TestRun as BenchmarkRun
from assay.formats.fabric_links import FabricLink
from assay.formats.ib_tools import Port
from assay.formats.kineto import Trace
from assay.formats.nccl_log import Channel, devices, interfaces
from assay.formats.nvidia_smi import NvlinkGpu, SmiGpu, Topology
from assay.formats.port_counters import Counters
from assay.formats.sentences import Said
from assay.formats.training_log import Step


def records(text: str) -> tuple[list[object], Reading]:
    reading = Reading(file="x")
    return list(read("x", text.splitlines(keepends=True), reading)), reading


def said(text: str) -> dict[str, Said]:
    return {r.fact: r for r in records(text)[0] if isinstance(r, Said)}


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[1,3]<stdout>:",
        "12: ",
        "node-1: ",
        "[2026-01-12 22:26:02] ",
        "2026-01-12T10:00:00Z ",
        "(Worker pid=7) ",
    ],
)
def test_launchers_may_write_before_a_line_of_nccl(prefix: str) -> None:
    (channel,), reading = records(
        f"{prefix}h1:10:20 [3] NCCL INFO Channel 00/0 : 7[3] -> 8[0] [send] via NET/IB/3/GDRDMA\n"
    )
    assert isinstance(channel, Channel)
    assert (channel.host, channel.src, channel.dst, channel.way) == ("h1", 7, 8, "send")
    assert (channel.transport, channel.gdr, reading.unread) == ("NET/IB", True, 0)


@pytest.mark.parametrize(
    ("via", "transport"),
    [
        ("P2P/IPC/read", "P2P/IPC"),
        ("direct shared memory", "SHM"),
        ("SHM/direct/direct", "SHM"),
        ("NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric"),
        ("P2P/CUMEM", "P2P/CUMEM"),
        ("NET/Socket/0(3)", "NET/Socket"),
    ],
)
def test_the_transport_is_read_from_every_wording(via: str, transport: str) -> None:
    (channel,), _ = records(f"h:1:2 [0] NCCL INFO Channel 01 : 0[1b000] -> 1[43000] via {via}\n")
    assert isinstance(channel, Channel)
    assert channel.transport == transport


@pytest.mark.parametrize(
    "line",
    [
        "Got completion with error 12, opcode 1, len 0, vendor err 129",
        "Got completion from peer 10.0.0.2<4> with error 12, opcode 2, len 1, vendor err 129 (Send) localGid a::1 remoteGid b::1",
        "NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=129 len=8 vendor err 129 (Recv) hca mlx5_1",
        "NET/IB: Got completion from peer 10.0.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129",
    ],
)
def test_a_failed_completion_is_one_fact_in_all_versions(line: str) -> None:
    fact = said(f"h1:1:2 [0] net.cc:5 NCCL WARN {line}\n")["ib.completion"]
    assert fact["status"] == "12"
    assert fact["vendor"] == "129"


def test_a_pasted_session_is_split_into_its_tools() -> None:
    text = (
        "$ ibstat\nCA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
        "\t\tLink layer: InfiniBand\n$ ulimit -l\n8192\n$ lsmod | grep peermem\n$ uname -r\n6.8.0\n"
    )
    found, reading = records(text)
    (port,) = [r for r in found if isinstance(r, Port)]
    assert (port.device, port.state, port.rate_Bps) == ("mlx5_0", "Active", 50e9)
    assert said(text)["limit.memlock"]["value"] == "8192"
    assert reading.unread == 0


def test_lines_that_nobody_knows_are_counted() -> None:
    _, reading = records("hello\nh1:1:2 [0] NCCL INFO Using network IB\nsomething else\n\n")
    assert (reading.lines, reading.unread, reading.first_unread) == (4, 2, 1)


def test_counters_come_from_all_their_tools() -> None:
    text = (
        "# Port counters: Lid 7 port 1 (CapMask: 0x5A00)\nSymbolErrorCounter:..............3\n\n"
        'Errors for "sw1"\n   GUID 0xe41d port 31: [LinkDownedCounter == 24 (24.0)] [PortXmitWait == 981 (9.1K)]\n'
        "/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors:12\nlink_downed 255\n"
    )
    found = [r for r in records(text)[0] if isinstance(r, Counters)]
    assert [c.source for c in found] == ["perfquery", "ibqueryerrors", "sysfs", "sysfs"]
    assert found[1].port == "sw1[31]"
    assert found[2].values["PortRcvErrors"][0] == 12


def test_iblinkinfo_tells_adapters_from_switches() -> None:
    text = (
        'CA: h1 mlx5_0:\n      0x10    101    1[  ] ==( 4X   100.0 Gbps Active/  LinkUp)==>      11    1[  ] "sw" ( )\n'
        'Switch: 0xb8 sw:\n          11   34[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n'
    )
    ends = [(r.owner, r.is_adapter, r.up) for r in records(text)[0] if isinstance(r, FabricLink)]
    assert ends == [("h1 mlx5_0", True, True), ("sw", False, False)]


def test_the_topology_matrix_is_read_with_nics_and_affinity() -> None:
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tNV18\tPIX\t0-55\t0\n"
        "GPU1\tNV18\t X \tSYS\t56-111\t1\nNIC0\tPIX\tSYS\t X \t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
    )
    (table,) = [r for r in records(text)[0] if isinstance(r, Topology)]
    assert table.cells["GPU0", "GPU1"] == "NV18"
    assert table.cells["GPU1", "NIC0"] == "SYS"
    assert table.affinity["GPU0"] == "0-55"


def test_values_of_nvidia_smi_are_found_by_the_end_of_their_path() -> None:
    text = (
        "GPU 00000000:E3:00.0\n    Performance State                     : P0\n    PCI\n        GPU Link Info\n            PCIe Generation\n"
        "                Max                       : 5\n                Current                   : 2\n    Clocks\n        SM : 705 MHz\n"
    )
    (one,) = [r for r in records(text)[0] if isinstance(r, SmiGpu)]
    assert one.real("PCIe Generation/Current") == 2
    assert one.find("PCIe Generation/Max") == ("5", 6)
    assert one.real("Clocks/SM") == 705


def test_nvidia_smi_xml_gives_the_same_paths() -> None:
    text = (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        '<driver_version>550.90.07</driver_version>\n<gpu id="00000000:52:00.0"><product_name>NVIDIA H100</product_name>'
        "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows></gpu></nvidia_smi_log>\n"
    )
    (one,) = [r for r in records(text)[0] if isinstance(r, SmiGpu)]
    assert one.text("Remapped Rows/Pending") == "Yes"
    assert said(text)["sw.driver"]["version"] == "550.90.07"


def test_nvlinks_are_counted_in_both_forms() -> None:
    smi = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
    dcgm = "    gpuId 1:\n        U D X _\n"
    found = [r for r in records(smi + dcgm)[0] if isinstance(r, NvlinkGpu)]
    assert [list(r.states.values()) for r in found] == [
        ["up", "down"],
        ["up", "down", "disabled", "unsupported"],
    ]


def test_a_benchmark_that_hung_has_a_header_and_no_row() -> None:
    text = "# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) iters: 20\n#       size         count      type\n"
    (run,) = [r for r in records(text)[0] if isinstance(r, BenchmarkRun)]
    assert (run.header, run.rows, run.finished) == (2, [], False)


def test_steps_of_training_logs_are_read() -> None:
    text = "iteration 12/100 | elapsed time per iteration (ms): 1520.5 | lm loss: 2.25E+00 |\nstep: 13  loss: 2.2  step_time: 1.4s\n"
    steps = [(r.step, r.step_s, r.loss) for r in records(text)[0] if isinstance(r, Step)]
    assert steps == [(12, 1.5205, 2.25), (13, 1.4, 2.2)]


def test_exposed_communication_is_what_no_computing_hides() -> None:
    def event(name: str, cat: str, ts: float, dur: float) -> dict[str, object]:
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}

    trace = {
        "traceEvents": [
            event("ProfilerStep#1", "user_annotation", 0, 10e6),
            event("gemm", "kernel", 0, 4e6),
            event("ncclKernel_AllReduce_RING_LL_Sum_float(x)", "kernel", 2e6, 3e6),
            event("ncclDevKernel_AllGather_RING_LL(x)", "kernel", 6e6, 1e6),
            event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 8e6, 2e6),
            {"ph": "M"},
            7,
        ]
    }
    (found,) = [r for r in records(json.dumps(trace))[0] if isinstance(r, Trace)]
    assert found.communication_s == pytest.approx(4)
    assert found.exposed_s == pytest.approx(2)
    assert found.loader_s == pytest.approx(2)
    assert found.span_s == pytest.approx(10)


@pytest.mark.parametrize(
    "text", ['{"traceEvents": [1,2', "<system><cpu>", "[", "{", "<", '{"a": 1}\n', "\x00\x01\n"]
)
def test_damaged_documents_are_told_and_not_raised(text: str) -> None:
    _, reading = records(text)
    assert reading.problem or reading.unread or reading.lines <= 1


def test_entities_in_xml_are_refused() -> None:
    _, reading = records('<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "c">]>\n<system/>\n')
    assert reading.problem is not None
    assert "entities" in reading.problem


def test_a_pickle_that_is_no_dump_is_refused() -> None:
    with pytest.raises(InputError, match="no flight-recorder dump"):
        list(read("x", b"\x80\x04N.", Reading(file="x")))


def test_device_lists_are_split() -> None:
    assert devices("[0]mlx5_0:1/IB [1]mlx5_1+mlx5_2:1/RoCE [RO]") == (
        ("mlx5_0", "IB"),
        ("mlx5_1+mlx5_2", "RoCE"),
    )
    assert interfaces("[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>") == (
        ("eth0", "10.0.0.1"),
        ("ib0", "fe80::1%ib0"),
    )


def test_a_fact_said_by_the_million_is_kept_a_few_times() -> None:
    from assay.doctor.facts import MOST_PER_SPEAKER, Facts, collect

    line = "h1:1:2 [0] net.cc:5 NCCL WARN NET/IB : Got async event : port error\n"
    facts = collect(read("x", [line] * 500, Reading(file="x")), Facts())
    assert Counter(facts.counts)["ib.async_event"] == 500
    assert len(facts.all("ib.async_event")) == MOST_PER_SPEAKER
