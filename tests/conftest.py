"""In CI a skipped test is a failure: there, everything that a test needs is installed.

A reason that begins with "optional: " is what no package of the system brings.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

# Speed is measured in benchmarks/, on a quiet machine; a busy one must not fail a test. In CI the examples
# are the same every time, so that a change is judged by what it changes; elsewhere they are new ones.
settings.register_profile(
    "assay",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("assay")


#: Folders whose tests start real ranks, which mostly wait: each folder's one after another, in one process.
_RANKS = ("app", "cluster", "measure", "testbed")


class FilesAndRanks(LoadScopeScheduling):
    """A process takes one file after another; a folder of real ranks counts as one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.split("/")[-2]
        return folder if folder in _RANKS else file


def pytest_xdist_make_scheduler(config, log):
    return FilesAndRanks(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if "optional: " not in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be missing: {reason}"
