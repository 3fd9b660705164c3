from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import finite, names, words

from assay.codec.document import read_document, read_toml, read_yaml, write_yaml
from assay.errors import InputError

plain = st.recursive(
    st.one_of(words, st.integers(-(2**70), 2**70), finite, st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, plain, min_size=1, max_size=4))
def test_yaml_is_read_as_it_was_written(data: dict[str, object]) -> None:
    assert read_yaml(write_yaml(data), "f.yaml").data == data


def test_yaml_1_2_takes_50e9_for_a_number_and_no_for_text() -> None:
    data = read_yaml("a: 50e9\nb: no\nc: 0o17\nd: 2026-11-30\ne: true\nf: ~\n", "f.yaml").data
    assert data == {"a": 50e9, "b": "no", "c": 15, "d": "2026-11-30", "e": True, "f": None}
    assert [type(value) for value in data.values()] == [float, str, int, str, bool, type(None)]


YAML = """\
# a comment
name: x

items:
  - id: a
    recipe: {bytes: 1,
      ranks: 2}

  - id: b
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("name",), 2),
        (("items",), 4),
        (("items", 0), 5),
        (("items", 0, "recipe"), 6),
        (("items", 0, "recipe", "ranks"), 7),
        (("items", 1, "id"), 9),
        (("items", 1, "none"), 9),
        (("none", 3), 1),
    ],
)
def test_each_key_of_a_yaml_file_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert read_yaml(YAML, "f.yaml").where(*path) == f"f.yaml:{line}"


TOML = """\
name = "x"

[table."dotted.key"]
unit = "s"

[[items]]
id = "a"
recipe.bytes = 1
[[items]]
id = "b"
[items.recipe]
ranks = 2
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 1),
        (("table", "dotted.key"), 3),
        (("table", "dotted.key", "unit"), 4),
        (("items", 0), 6),
        (("items", 0, "recipe", "bytes"), 8),
        (("items", 1, "id"), 10),
        (("items", 1, "recipe", "ranks"), 12),
        (("items", 1, "none"), 9),
    ],
)
def test_each_key_of_a_toml_file_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    document = read_document(TOML, "f.toml")
    assert document.line(path) == line


@pytest.mark.parametrize(
    ("text", "words", "where"),
    [
        ("a: 1\nb: 2\na: 3\n", 'duplicate key "a"', "f.yaml:3"),
        ("a: [1\nb: 2\n", "expected", "f.yaml:2"),
        ("a:\n\t- 1\n", "spaces, not tabs", "f.yaml:2"),
        ("", "empty", "f.yaml"),
        ("- 1\n", "keys with values are wanted, not a list", "f.yaml:1"),
        ("just words\n", "keys with values are wanted, not text", "f.yaml:1"),
        ("a: 1\n3: 2\n", "the key 3 is not text", "f.yaml:1"),
        ("a: !!binary aGk=\n", "of kind bytes", "f.yaml:1"),
        ("a: \x00\n", "not YAML", "f.yaml"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, words: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_yaml(text, "f.yaml")
    assert words in str(caught.value)
    assert caught.value.where == where


def test_a_few_aliases_cannot_fill_the_memory() -> None:
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(InputError, match="too large"):
        read_yaml("\n".join(rows), "f.yaml")


def test_what_is_no_toml_is_told_with_its_line() -> None:
    with pytest.raises(InputError, match="not TOML") as caught:
        read_toml("a = 1\na = 2\n", "f.toml")
    assert caught.value.where is not None
    assert caught.value.where.startswith("f.toml:2")


def test_a_file_is_read_by_its_ending(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = 1\n")
    (tmp_path / "a.yaml").write_text("x: 1\n")
    assert read_document(tmp_path / "a.toml").data == read_document(tmp_path / "a.yaml").data == {"x": 1}
    assert read_document(tmp_path / "a.yaml").where("x") == f"{tmp_path / 'a.yaml'}:1"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    for name, told in (("none.yaml", "no file"), ("latin.yaml", "UTF-8"), (".", "cannot read")):
        with pytest.raises(InputError, match=told):
            read_document(tmp_path / name)
