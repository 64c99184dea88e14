"""Schema changes in the middle of everything: nobody sees one that the journal takes back."""

from __future__ import annotations

import pytest
from tests.server.box import Box

from headwater.errors import Er
from headwater.store.privileges import Priv
from headwater.wire.constants import Key, Type

EVERYTHING = {Key.SPACE_ID: 512, Key.LIMIT: 100, Key.KEY: []}
ORDINARY = [{Key.SPACE_NAME: "t"}, {Key.FETCH_POSITION: True}, {Key.AFTER_TUPLE: [0, ""]}]
"""What keeps a SELECT from the compiled path."""


@pytest.fixture
def truncating(box: Box) -> Box:
    """One tuple is there, and a truncation is prepared and not written."""
    box.grant_guest(330, Priv.READ | Priv.WRITE)
    box.insert(512, 1, "a")
    box.journal.write()
    box.connect().send(Type.REPLACE, {Key.SPACE_ID: 330, Key.TUPLE: [512, 1]})
    return box


@pytest.mark.parametrize("how", [{}, *ORDINARY])
@pytest.mark.parametrize("stream", [0, 1])
def test_a_select_waits_for_a_truncation(truncating: Box, how: dict[int, object], stream: int) -> None:
    client = truncating.connect()
    client.send(Type.SELECT, {**EVERYTHING, **how}, stream)
    assert client.replies() == []
    truncating.journal.fail()
    assert [reply.data for reply in client.replies()] == [[[1, "a"]]]


def test_a_transaction_that_saw_a_truncation_goes_with_it(truncating: Box) -> None:
    client = truncating.connect()
    client.send(Type.BEGIN, {}, 1)
    assert len(client.replies()) == 1
    client.send(Type.SELECT, EVERYTHING, 1)
    assert client.replies() == []
    truncating.journal.fail()
    assert [reply.code for reply in client.replies()] == [Er.TRANSACTION_CONFLICT]
    assert client.ask(Type.COMMIT, {}, 1).code == Er.TRANSACTION_CONFLICT


def test_a_transaction_that_wrote_after_a_change_goes_with_it(truncating: Box) -> None:
    """It has read nothing, and what it knows of the indexes is no longer so."""
    client = truncating.connect()
    client.send(Type.BEGIN, {}, 1)
    client.send(Type.REPLACE, {Key.SPACE_ID: 512, Key.TUPLE: [2, "b"]}, 1)
    truncating.journal.fail()
    client.send(Type.COMMIT, {}, 1)
    assert client.replies()[-1].code == Er.TRANSACTION_CONFLICT


def test_a_select_in_a_new_space_waits_until_the_space_is_written(box: Box) -> None:
    client = box.connect()
    box.grant_guest(281, Priv.READ)
    box.journal.write()
    box.make_space(600, "new")
    box.make_index(600, 0, "pk", [[0, "unsigned"]])
    box.grant_guest(600, Priv.READ)
    client.send(Type.SELECT, {Key.SPACE_ID: 600, Key.SPACE_NAME: "new", Key.LIMIT: 1, Key.KEY: []})
    assert client.replies() == []
    box.journal.fail()
    assert [reply.code for reply in client.replies()] == [Er.NO_SUCH_SPACE]
