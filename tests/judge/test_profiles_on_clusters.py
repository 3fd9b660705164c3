"""No criterion of a shipped profile leaves open which of several recipes it means, on any kind of cluster."""

from __future__ import annotations

import pytest
from judging import reading

from assay.catalog.profiles import profiles
from assay.catalog.quantities import quantity
from assay.judge.families import Measured, gather
from assay.judge.verdicts import judge
from assay.store.figures import DEVICES
from assay.store.invented import Layout, Noise, all_series

CLUSTERS = {
    "one node of 8 GPUs": Layout(nodes=1, gpus=8),
    "16 nodes of 8 GPUs": Layout(nodes=16, gpus=8, pairs="rails"),
    "NVL72": Layout(nodes=18, gpus=4, pairs="all"),
    "four hosts of one rank": Layout(nodes=4, gpus=1, pairs="all"),
}


def measured(layout: Layout) -> Measured:
    """One restart of everything that the generator knows."""
    noise = Noise()
    return gather(
        [
            reading(value, subject=str(subject), id=made.quantity, recipe=one.recipe_of(made.statistic))
            for one in all_series(layout, DEVICES["a100-sxm-like"])
            for samples in one.draw(1, 1, noise)
            for made in one.yields
            for subject, value in zip(one.subjects, made.of(samples).tolist(), strict=True)
        ],
        quantity,
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_criterion_goes_unmeasured_because_two_recipes_answer_it(cluster):
    layout = CLUSTERS[cluster]
    found = measured(layout)
    judgements = [
        (name, judgement)
        for name, profile in profiles().items()
        for judgement in judge(profile, found, quantity).judgements
    ]
    assert [(n, j.criterion.id) for n, j in judgements if j.reason.code.endswith(".ambiguous")] == []
    spans = {
        j.recipe.get("span")
        for n, j in judgements
        if n == "self" and j.criterion.id == "links-symmetric" and j.recipe.get("span")
    }
    inside, between = layout.gpus > 1, layout.nodes > 1
    assert spans == {span for span, there in (("node", inside), ("nodes", between)) if there}
