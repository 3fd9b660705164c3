"""Who and what a finding is about, beside the wordings that the specifications hold."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import pytest
from case_files import diagnosed

XID = "[  12.5] NVRM: Xid (PCI:0000:{bus}:00): {text}\n"


@pytest.mark.parametrize("text", ["", "We had a hang yesterday, but today it works. Nothing to see here.\n"])
def test_no_text_and_prose_say_nothing(text: str) -> None:
    assert diagnosed([("x", text)]).findings == ()


def test_the_folder_of_a_file_names_the_node() -> None:
    (finding,) = diagnosed(
        [("bundle/node-17/dmesg.txt", XID.format(bus="9b", text="79, pid=7, GPU has fallen off the bus."))]
    ).findings
    assert str(finding.subject) == "gpu:node-17/0000:9b:00"


def test_lines_of_two_processes_that_ran_into_each_other_are_both_read() -> None:
    text = "h1:1:2 [0] NCCL INFO Using networkh2:3:4 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    assert [f.code for f in diagnosed([("x", text)]).findings] == ["GDR_PEERMEM_MISSING"]
