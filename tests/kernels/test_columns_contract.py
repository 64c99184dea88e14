"""The kernels between rows and Arrow, and the file that tells what they are."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest
from tests.kernels.batches import columns
from tests.kernels.test_contract import _real_shape, _shape

import headwater.kernels
from headwater.kernels import columns as public
from headwater.kernels.columnplan import KINDS, Kind, Source
from headwater.kernels.packplan import Form, How, how_of
from headwater.typing import FieldType

CONTRACT = Path(headwater.kernels.__file__).with_name("_columns.pyi")


def contract() -> tuple[dict[str, ast.FunctionDef], dict[str, ast.ClassDef]]:
    tree = ast.parse(CONTRACT.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return functions, classes


def test_twin_exports_the_names_of_the_contract_and_no_more(c: ModuleType) -> None:
    functions, classes = contract()
    assert set(c.__all__) == set(functions) | set(classes)
    assert set(c.__all__) <= set(public.__all__)


def test_functions_and_methods_have_the_signatures_of_the_contract(c: ModuleType) -> None:
    functions, classes = contract()
    for name, node in functions.items():
        assert _real_shape(getattr(c, name)) == _shape(node), name
    for item in classes["Columns"].body:
        if isinstance(item, ast.FunctionDef) and item.name != "__init__":
            assert _real_shape(getattr(c.Columns, item.name)) == _shape(item), item.name


def test_batches_have_the_attributes_of_the_contract(c: ModuleType) -> None:
    batch = columns(c)
    for item in contract()[1]["Columns"].body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            assert getattr(batch, item.target.id) in (0, False)


def test_every_source_has_its_kinds() -> None:
    assert set(KINDS) == set(Source)


@pytest.mark.parametrize("source", list(Source))
def test_kinds_that_a_source_cannot_have_are_refused(c: ModuleType, source: Source) -> None:
    for kind in Kind:
        part = [(source, kind, 10, 2)]
        if kind in KINDS[source]:
            columns(c, *part)
        else:
            with pytest.raises(ValueError, match="cannot be shown"):
                columns(c, *part)


@pytest.mark.parametrize(
    "part", [(Source.FIELD, Kind.DECIMAL, 39, 0), (Source.FIELD, Kind.DECIMAL, 5, 6), (99, 0), (0, 99)]
)
def test_columns_that_there_are_not_are_refused(c: ModuleType, part: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        columns(c, part)


def test_every_form_is_written_as_any_or_as_what_it_is_named_after() -> None:
    for form in Form:
        assert how_of(FieldType.ANY, form) in How
    with pytest.raises(ValueError, match="a column of int64 cannot be written as string: cast it first"):
        how_of(FieldType.STRING, Form.INT64)
