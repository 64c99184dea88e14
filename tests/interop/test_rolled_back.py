"""Journals of a real server in which synchronous transactions were taken back for want of a quorum."""

from __future__ import annotations

from pathlib import Path

from tests.support import iproto
from tests.support.fixtures import Servers, needs_tarantool
from tests.support.tarantool import run_lua

pytestmark = needs_tarantool

SCRIPT = """
box.cfg{checkpoint_interval = 0, replication_synchro_quorum = 1, replication_synchro_timeout = 0.05, log = 'log'}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
local s = box.schema.space.create('s', {id = 600, is_sync = true})
s:create_index('pk')
local a = box.schema.space.create('a', {id = 601})
a:create_index('pk')
s:replace{1, 'confirmed'}
box.cfg{replication_synchro_quorum = 2}
local refused = 0
local function try(call) if not pcall(call) then refused = refused + 1 end end
try(function() s:replace{1, 'lost'} end)
try(function() s:replace{2, 'lost'} end)
try(function() box.begin() s:replace{3, 'lost'} a:replace{3, 'lost'} box.commit() end)
try(function() s:delete{1} end)
box.cfg{replication_synchro_quorum = 1}
s:replace{4, 'confirmed'}
a:replace{4, 'plain'}
s:update({1}, {{'=', 2, 'changed'}})
answer({refused = refused, s = s:select(), a = a:select()})
"""


def test_what_had_no_quorum_is_not_there(servers: Servers, tmp_path: Path) -> None:
    there = run_lua(SCRIPT, cwd=tmp_path / "data")
    assert there["refused"] == 4
    assert there["s"] == [[1, "changed"], [4, "confirmed"]]
    with servers.subject("data").start() as ours, iproto.Connection(*ours.address) as connection:
        for name, space in (("s", 600), ("a", 601)):
            body = {iproto.SPACE_ID: space, iproto.KEY: [], iproto.ITERATOR: 2, iproto.LIMIT: 100}
            found = connection.ask(iproto.SELECT, body)
            assert [list(row) for row in found.data] == there[name]
