"""The two kernels and the file that tells what they are: same names, same signatures."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import headwater.kernels

CONTRACT = Path(headwater.kernels.__file__).with_name("_native.pyi")
MADE_BY_OTHERS = {"KeyViolation", "FormatViolation", "DuplicateKey", "Frames", "MemtxIndex", "MemtxSpace", "ReadView"}
"""Classes without a constructor in the contract: only kernels make their objects."""


def _contract() -> tuple[dict[str, ast.FunctionDef], dict[str, ast.ClassDef]]:
    tree = ast.parse(CONTRACT.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return functions, classes


def _shape(node: ast.FunctionDef) -> list[tuple[str, str]]:
    """(name, default) of each argument."""
    arguments = node.args.posonlyargs + node.args.args
    defaults = [""] * (len(arguments) - len(node.args.defaults)) + [ast.unparse(value) for value in node.args.defaults]
    return [(argument.arg, _plain(default)) for argument, default in zip(arguments, defaults, strict=True)]


def _plain(default: str) -> str:
    return repr(ast.literal_eval(default)) if default else ""


def _real_shape(function: Any) -> list[tuple[str, str]]:
    empty = inspect.Parameter.empty
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, "" if p.default is empty else repr(p.default)) for p in parameters]


def test_kernel_exports_the_names_of_the_contract_and_no_more(k: ModuleType) -> None:
    functions, classes = _contract()
    public = set(functions) | set(classes)
    exported = getattr(k, "__all__", None)
    if exported is None:
        exported = [name for name, value in vars(k).items() if getattr(value, "__module__", None) == k.__name__]
    assert {name for name in exported if not name.startswith("_")} == public
    assert all(hasattr(k, name) for name in public)


def test_functions_have_the_signatures_of_the_contract(k: ModuleType) -> None:
    functions, _ = _contract()
    assert functions
    for name, node in functions.items():
        assert _real_shape(getattr(k, name)) == _shape(node), name


def test_methods_have_the_signatures_of_the_contract(k: ModuleType) -> None:
    _, classes = _contract()
    checked = 0
    for class_name, node in classes.items():
        for item in node.body:
            if not isinstance(item, ast.FunctionDef):
                continue
            real = getattr(getattr(k, class_name), item.name)
            if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in item.decorator_list):
                assert not callable(real), (class_name, item.name)
                continue
            if item.name == "__len__":
                assert callable(real)
                continue
            if item.name != "__init__":
                assert _real_shape(real) == _shape(item), (class_name, item.name)
                checked += 1
    assert checked > 35


def test_constructors_take_the_arguments_of_the_contract(k: ModuleType) -> None:
    """By name and by place: a compiled class does not tell its signature."""
    samples = {
        "KeyPart": [0, 1, True, True, None],
        "KeyDef": [[k.KeyPart(0, 1)], [k.KeyPart(1, 1)]],
        "TupleFormat": [[(1, False)], 3],
        "DuplicateKey": [1, b"old", b"new"],
        "KeyViolation": ["type", 1, 2, 3],
        "FormatViolation": ["type", 1, 2, "nil"],
    }
    _, classes = _contract()
    for class_name, node in classes.items():
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                names, values = [name for name, _ in _shape(item)[1:]], samples[class_name]
                required = sum(not default for _, default in _shape(item)[1:])
                assert len(values) == len(names)
                made = [
                    getattr(k, class_name)(*values),
                    getattr(k, class_name)(**dict(zip(names, values, strict=True))),
                    getattr(k, class_name)(*values[:required]),
                ]
                assert all(isinstance(one, getattr(k, class_name)) for one in made)


def test_objects_have_the_attributes_of_the_contract(k: ModuleType) -> None:
    node = k.Memtx()
    space = node.add_space(512)
    index = space.add_index(0, k.KeyDef([k.KeyPart(0, 1)]), True)
    objects = {"Memtx": node, "MemtxSpace": space, "MemtxIndex": index, "KeyDef": index.key_def}
    _, classes = _contract()
    for class_name, owner in objects.items():
        for item in classes[class_name].body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                assert hasattr(owner, item.target.id), (class_name, item.target.id)
    assert issubclass(k.KeyViolation, Exception)
    assert issubclass(k.FormatViolation, Exception)
    assert issubclass(k.DuplicateKey, Exception)
