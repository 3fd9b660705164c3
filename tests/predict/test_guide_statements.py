"""What public guides state comes out of the model, or does not; docs/models/guide.md shows the same."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "validation"))

import guide  # noqa: E402 - found through the line above

PAGE = (ROOT / "docs" / "models" / "guide.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("outcome", "low", "high", "follows"),
    [
        (guide.slow_links, 0.40, 0.60, True),
        (guide.slow_links_without_tensor_parallel, 0.0, 0.1, False),
        (guide.slow_checkpoints, 0.5, 0.6, True),
        (guide.slow_reading, 1e5, 1e8, False),
        (guide.fabric_for_a_job_that_sends, 0.4, 0.9, True),
        (guide.fabric_for_a_job_that_computes, 0.0, 0.2, False),
        (guide.nvlink_over_pcie, 7.0, 7.3, False),
        (guide.nvlink_over_pcie_in_a_collective, 10, 1000, True),
    ],
)
def test_each_statement_follows_or_does_not(outcome, low, high, follows):
    one = outcome()
    assert low <= one.value <= high
    assert one.follows is follows
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {one.statement} | {one.assumed} |")]
    assert ("does not follow" in row) is not follows
