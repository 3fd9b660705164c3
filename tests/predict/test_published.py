"""Published rows as situations: the software and year choose the stack, gaps become marginals."""

from __future__ import annotations

import pytest

from assay.catalog.devices import gpu
from assay.predict.published import marginal
from assay.predict.published_systems import groups_of, precision_of, stack_of, system_of, wires_of_row

ROW = {
    "id": "M1",
    "gpu_model": "H100 80GB",
    "gpus_total": "64",
    "gpus_per_node": "8",
    "model_name": "Llama 3.1 70B",
    "seq_len": "8192",
    "global_batch_seqs": "128",
    "micro_batch": "1",
    "tp": "4",
    "pp": "4",
    "vpp": "5",
    "cp": "2",
    "dp": "2",
    "precision": "bf16",
    "recompute": "none",
    "software": "NeMo 24.12",
    "year": "2024",
}


@pytest.mark.parametrize(
    ("software", "more", "stack"),
    [
        ("NeMo 24.09", {}, "nemo"),
        ("Megatron-LM", {"year": "2021"}, "megatron-2020"),
        ("Megatron-LM 2022", {"year": "2022"}, "megatron-2022"),
        ("Megatron-Bridge / NeMo container 25.11", {}, "megatron-bridge"),
        ("Megatron-Bridge / NeMo container 26.08", {}, "megatron-bridge-26.06"),
        ("torchtitan", {"notes": "FSDP2, torch.compile"}, "torchtitan"),
        ("torchtitan", {"notes": "FSDP2"}, "torchtitan-eager"),
        ("Megatron-LM", {"source": "MegaScale"}, "megatron"),
        ("MegaScale", {}, "megascale"),
        ("", {"pp": "1", "sharding": "FSDP FULL_SHARD"}, "fsdp"),
        ("NeMo Framework", {"source": "MLPerf Training v5.0 closed, X"}, "mlperf"),
    ],
)
def test_software_and_year_choose_the_stack(software: str, more: dict[str, str], stack: str) -> None:
    assert stack_of(ROW | {"software": software} | more).id == stack


def test_a_complete_row_is_one_situation() -> None:
    found = marginal(ROW)
    assert len(found.situations) == 1
    one = found.situations[0]
    assert (one.layout.tp, one.layout.pp, one.layout.vpp, one.layout.cp, one.layout.dp) == (4, 4, 5, 2, 2)
    assert one.workload.model.id == "llama-3.1-70b"
    assert found.assumed == ()


def test_missing_degrees_are_marginalised_over_splits_that_the_batch_allows() -> None:
    bare = ROW | {
        "tp": "",
        "pp": "",
        "vpp": "",
        "cp": "",
        "dp": "",
        "gpus_total": "8",
        "global_batch_seqs": "8",
    }
    found = marginal(bare)
    assert "degrees marginalised" in found.assumed
    assert {one.layout.ranks for one in found.situations} == {8}


def test_a_v100_row_is_predicted_on_its_fp16_units() -> None:
    row = ROW | {"gpu_model": "V100 32GB", "precision": "fp16", "year": "2020", "software": "Megatron-LM"}
    assert marginal(row).situations[0].gpu.architecture == "volta"


@pytest.mark.parametrize(
    ("said", "Bps"),
    [
        ("8x200Gb HDR IB (Selene)", 25e9 * 0.88),
        ("4 x 100Gb Omni-Path per node", 6.25e9 * 0.75),
        ("1600 Gbps RoCE node-node", 25e9 * 0.75),
        ("not stated", 50e9 * 0.88),
    ],
)
def test_wires_follow_what_a_row_says(said: str, Bps: float) -> None:
    row = ROW | {"interconnect_inter": said}
    assert wires_of_row(row, gpu("h100-sxm"), system_of(row)).nic_Bps == pytest.approx(Bps)


@pytest.mark.parametrize(
    ("said", "recipe"),
    [("fp8 (current scaling)", "fp8-current"), ("mxfp8", "mxfp8"), ("nvfp4", "nvfp4"), ("bf16", "bf16")],
)
def test_precision_words_name_the_recipe(said: str, recipe: str) -> None:
    assert precision_of(ROW | {"precision": said})[0] == recipe


def test_fp4_keeps_layers_in_bf16_where_its_row_says_so() -> None:
    assert precision_of(ROW | {"precision": "nvfp4"})[1] == 0
    assert precision_of(ROW | {"precision": "nvfp4 (first/last layers higher)"})[1] > 0


def test_silence_about_recomputation_means_most_often_what_the_stack_does_by_itself() -> None:
    def odds(software: str) -> dict[str, float]:
        found = marginal(ROW | {"recompute": "", "software": software})
        return {
            kind: sum(
                w for s, w in zip(found.situations, found.weights, strict=True) if s.layout.recompute == kind
            )
            for kind in ("none", "full")
        }

    assert odds("JAX MaxText")["full"] > odds("JAX MaxText")["none"]
    assert odds("NeMo")["full"] < odds("NeMo")["none"]


def test_rows_count_in_the_groups_of_the_accuracy_table() -> None:
    assert groups_of(ROW) == ("dense", "dense H100")
    assert groups_of(ROW | {"experts": "8"}) == ("MoE",)
    assert groups_of(ROW | {"sharding": "FSDP2 64"}) == ("FSDP/ZeRO",)
    assert "2,048 GPUs and more" in groups_of(ROW | {"gpus_total": "4096"})
    assert groups_of(ROW | {"confidence": "1"}) == ("confidence 1",)
    assert "Blackwell dense" in groups_of(ROW | {"gpu_model": "GB200"})
