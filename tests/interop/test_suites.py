"""The connectors' own suites, as far as they need no Lua: asynctnt and tarantool-python."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.suites.fetching import ASYNCTNT, TARANTOOL, unpacked
from tests.interop.suites.fixtures import make_templates
from tests.interop.suites.running import launcher, run
from tests.support.subjects import STAND_IN

pytestmark = pytest.mark.skipif(STAND_IN, reason="the launcher starts Headwater")

ASYNCTNT_PASS, TARANTOOL_PASS = 176, 56


LEFT_OUT = {
    "TestSuiteSchemaAbstract": "the base of two classes that are counted",
    "TestSuitePool": "every test asks its five servers for a function in Lua",
    "TestSuiteCrud": "needs the Lua module crud",
}

WITHOUT_DBAPI20 = """import unittest


class DatabaseAPI20Test(unittest.TestCase):
    \"\"\"In place of the compliance tests of DB-API, which are all SQL.\"\"\"
"""


def test_suite_of_asynctnt(tmp_path: Path) -> None:
    tree = unpacked(ASYNCTNT, tmp_path)
    (tree / "tests" / "files").mkdir(exist_ok=True)
    (tree / "tests" / "files" / "app.lua").write_text("-- what this file does, fixtures.py and procedures.py do\n")
    make_templates(tmp_path / "templates")
    outcome = run(tree, ["tests"], launcher(tmp_path / "bin"), tmp_path / "templates", 300)
    outcome.save("asynctnt")
    print(outcome.report("asynctnt"))
    assert len(outcome.passed) >= ASYNCTNT_PASS, (tree / "output.txt").read_text()[-5000:]


def test_suite_of_tarantool_python(tmp_path: Path) -> None:
    tree = unpacked(TARANTOOL, tmp_path)
    (tree / "dbapi20.py").write_text(WITHOUT_DBAPI20)
    make_templates(tmp_path / "templates")
    tests = ["test/suites", "-k", f"not {' and not '.join(LEFT_OUT)}"]
    outcome = run(tree, tests, launcher(tmp_path / "bin"), tmp_path / "templates", 300)
    outcome.save("tarantool-python")
    print(outcome.report("tarantool-python"))
    assert len(outcome.passed) >= TARANTOOL_PASS, (tree / "output.txt").read_text()[-5000:]
