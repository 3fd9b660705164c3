"""The wave of groups on real hosts: broken off and taken up, until it is decided, and over a shared uplink."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cluster_job import findings
from hosts_job import qualify, start
from waiting import wait_for

from cluster import UPLINK, Cluster

pytestmark = pytest.mark.cluster

BUSBW = "leaf.all_reduce.busbw"
#: Not in the order of the hosts, so that blocks would be other groups.
LEAVES = {"h0": "leaf0", "h2": "leaf0", "h1": "leaf1", "h3": "leaf1"}
