"""Fixtures of the predictor's tests."""

from __future__ import annotations

import pytest
from predict_fixtures import h100_network

from assay.predict.network import LinkNetwork


@pytest.fixture
def network() -> LinkNetwork:
    return h100_network()
