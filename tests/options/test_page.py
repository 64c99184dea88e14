"""docs/options.md is written from the table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from headwater.options import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_options", ROOT / "tools" / "write_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_table_says() -> None:
    written = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert written == writer().page(), "run: python tools/write_options.py"


def test_every_option_is_on_it() -> None:
    text = writer().page()
    for name in SETTINGS:
        assert f"| `{name}` |" in text
