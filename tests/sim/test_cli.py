"""`headwater sim` as a command."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from headwater.cli.sim import app
from headwater.journal import Journal
from headwater.journal.batch import Waiter


def test_seed_is_run_and_summed_up() -> None:
    done = CliRunner().invoke(app, ["--seed", "5", "--count", "2", "--storage", "--steps", "20"])
    assert done.exit_code == 0, done.output
    assert "seed 5: wal_mode" in done.output
    assert "seed 6: wal_mode" in done.output
    assert "2 seeds, 0 with a broken promise" in done.output


def test_whole_node_is_run_by_default() -> None:
    done = CliRunner().invoke(app, ["--seed", "1", "--steps", "4"])
    assert done.exit_code == 0, done.output
    assert "trace " in done.output


def test_every_event_is_printed_when_asked() -> None:
    done = CliRunner().invoke(app, ["--seed", "5", "--storage", "--steps", "5", "--trace"])
    assert "node/1 create /data/00000000000000000000.snap.inprogress" in done.output


def test_broken_promise_is_told_with_its_last_events(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Journal.settle

    def hasty(self: Journal, waiter: Waiter) -> None:
        settle(self, lambda error: None)
        waiter(None)

    monkeypatch.setattr(Journal, "settle", hasty)
    done = CliRunner().invoke(app, ["--seed", "0", "--count", "20", "--storage"])
    assert done.exit_code == 1
    assert "BROKEN PROMISE" in done.output
    assert "All of them: headwater sim --seed" in done.output
