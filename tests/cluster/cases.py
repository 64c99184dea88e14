"""Which sets a fault is tried on: some in `make test`, more of them in `make soak`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.subjects import STAND_IN
from tests.support.tarantool import EXECUTABLE

Case = str | tuple[object, ...]


def cases(*short: Case, slow: Sequence[Case] = (), names: str = "kinds") -> pytest.MarkDecorator:
    """Parametrizes a test. `names`: of its arguments; the first is `kinds`, one letter a node (tests.support.cluster).
    Without a tarantool those that need one are skipped."""
    wanted = [_case(each) for each in short]
    made = dict.fromkeys([*wanted, *(_case(each) for each in slow)])
    no_tarantool = pytest.mark.skipif(EXECUTABLE is None, reason="no tarantool is installed")
    parameters = []
    for case in made:
        marks = [no_tarantool] if "t" in str(case[0]) else []
        if case not in wanted:
            marks.append(pytest.mark.slow)
        parameters.append(pytest.param(*case, marks=marks))
    return pytest.mark.parametrize([name.strip() for name in names.split(",")], parameters)


def _case(given: Case) -> tuple[object, ...]:
    kinds, *rest = (given,) if isinstance(given, str) else given
    return (str(kinds).replace("h", "t") if STAND_IN else kinds, *rest)
