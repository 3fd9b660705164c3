"""The shipped profiles, and which one is the default for a machine."""

import pytest

from assay.catalog.profiles import DEFAULT, SYSTEMS, find_profile, profile_for, profiles
from assay.errors import UnknownNameError


def test_the_profiles_of_the_issue_are_there():
    assert {"self", "rental-guide", "rental-guide-attainable", *SYSTEMS} <= set(profiles())


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        (["h100-sxm"], "h100-sxm"),
        (["a100-sxm-80gb"], "a100-sxm"),
        (["h100-sxm", "h200-sxm"], DEFAULT),
        (["rtx-4090"], DEFAULT),
        ([""], DEFAULT),
        ([], DEFAULT),
    ],
)
def test_the_default_is_that_of_the_gpus_found(devices, name):
    assert profile_for(devices) == name


def test_a_near_miss_is_suggested():
    with pytest.raises(UnknownNameError, match="rental-guide"):
        find_profile("rental_guide")
