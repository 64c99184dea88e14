from __future__ import annotations

import pytest
from tests.store.dictionary import Dictionary


@pytest.fixture
def node() -> Dictionary:
    """A new node of the newest schema version."""
    return Dictionary()
