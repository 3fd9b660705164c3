import pytest

from assay.catalog.quantities import families, quantities, quantity, read_quantities
from assay.domain.quantity import Better, Scope
from assay.errors import InputError, UnknownNameError


def test_ids_are_unique_and_each_says_what_it_is() -> None:
    ids = [q.id for q in quantities()]
    assert len(ids) == len(set(ids))
    assert all(q.summary for q in quantities())


def test_a_concrete_id_fills_the_placeholders() -> None:
    rate = quantity("gemm.bf16.rate")
    assert (rate.id, rate.unit, rate.better, rate.scope) == (
        "gemm.bf16.rate",
        "FLOP/s",
        Better.HIGHER,
        Scope.GPU,
    )
    assert rate.defining == ("shape", "load", "statistic")
    assert quantity("gpu.name").exact


def test_no_concrete_id_is_described_twice() -> None:
    for known in quantities():
        concrete = ".".join("word" if part.startswith("<") else part for part in known.id.split("."))
        assert [q.id for q in quantities() if q.describes(concrete)] == [known.id]


@pytest.mark.parametrize(
    ("asked", "suggestion"),
    [
        ("gem.bf16.rate", "gemm.bf16.rate"),
        ("gemm.bf16.rat", "gemm.bf16.rate"),
        ("gemm.<dtyp>.rate", "gemm.<dtype>.rate"),
        ("gpu.nam", "gpu.name"),
        ("collective.all_reduce.bandwith", "collective.all_reduce"),
    ],
)
def test_an_unknown_id_suggests_the_nearest(asked: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        quantity(asked)
    assert suggestion in str(caught.value.fix)


def test_families_are_the_tables_of_the_file() -> None:
    assert list(families())[:3] == ["compute", "memory", "interconnect"]
    assert sum(len(family) for family in families().values()) == len(quantities())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a", "is not TOML"),
        ('[f."q.x"]\nunit = "s"\nbetter = "lower"\nscoop = "gpu"', "unknown key 'scoop'"),
        ('[f."q.x"]\nunit = "s"\nbetter = "lower"', "'scope' is missing"),
        ('[f."q.x"]\nunit = "s"\nbetter = "less"\nscope = "gpu"', "less"),
        ('[f."q.x"]\nunit = "ms"\nbetter = "lower"\nscope = "gpu"', "not a base unit"),
        ('[f."q.x"]\nunit = "s"\nbetter = "lower"\nscope = "gpu"\ndefining = "x"', "not a list"),
    ],
)
def test_a_wrong_table_is_told(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_quantities(text, file="q.toml")
