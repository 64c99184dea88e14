"""What clients were told against what nodes show: each kind of broken promise, planted by hand, is found."""

from __future__ import annotations

import pytest

from headwater.sim.check import Violation
from headwater.sim.cluster.ledger import Counter, Fate, Log, check_bank, check_same_data
from headwater.sim.cluster.plan import NodePlan, Plan
from headwater.sim.cluster.verdict import judge_data, judge_histories
from headwater.sim.cluster.work import BANK, COUNTER, DATA, LOG, Ledgers

DONE, ASKED, REFUSED = Fate.DONE, Fate.ASKED, Fate.REFUSED


def log(*fates: Fate) -> Log:
    made = Log(7, "n1")
    for fate in fates:
        made.fates[made.ask()] = fate
    return made


def broken(promise: str) -> pytest.RaisesExc[Violation]:
    return pytest.raises(Violation, match=f"^{promise}: ")


def test_replica_may_be_behind() -> None:
    log(DONE, DONE, DONE).look("n2", [1, 2])


def test_row_that_is_missing_before_a_later_one_is_found() -> None:
    with broken("order"):
        log(DONE, DONE, DONE).look("n2", [1, 3])


def test_row_that_was_never_answered_may_be_missing_in_the_middle() -> None:
    log(DONE, ASKED, DONE).look("n2", [1, 3])
    log(DONE, ASKED, DONE).judge("n2", [1, 2, 3])


def test_node_that_goes_back_is_found() -> None:
    rows = log(DONE, DONE)
    rows.look("n2", [1, 2])
    rows.look("n3", [1])
    with broken("order"):
        rows.look("n2", [1])


def test_node_may_go_back_after_a_power_cut_that_was_allowed() -> None:
    rows = log(DONE, DONE)
    rows.look("n2", [1, 2])
    rows.forget("n2")
    rows.look("n2", [1])


def test_lost_write_is_found_after_healing() -> None:
    with broken("durability"):
        log(DONE, DONE).judge("n3", [1])


def test_refused_row_that_is_there_is_found() -> None:
    with broken("durability"):
        log(DONE, REFUSED).judge("n1", [1, 2])


def test_row_that_nobody_wrote_is_found() -> None:
    with broken("durability"):
        log(DONE).look("n2", [1, 2])


def test_tail_that_wal_mode_write_may_lose_is_lost_for_everybody() -> None:
    rows = log(DONE, DONE, ASKED)
    assert rows.cut_tail([1]) == 1
    rows.judge("n2", [1])
    with broken("durability"):
        rows.judge("n2", [1, 2])
    assert rows.ask() == 4, "a number that was lost is not given again"


def test_counter_may_hold_what_was_not_answered() -> None:
    counter = Counter(asked=5, done=3, refused=1)
    for value in (3, 4):
        counter.judge("n1", 0, value)
    for value in (2, 5):
        with broken("durability"):
            counter.judge("n1", 0, value)


def test_part_of_a_transaction_is_found() -> None:
    check_bank("n1", [[0, 60], [1, 40]])
    check_bank("n1", [])
    with broken("order"):
        check_bank("n1", [[0, 60], [1, 45]])


def test_divergence_is_found_and_named() -> None:
    one = {"512 (log)": [b"a", b"b"]}
    check_same_data({"n1": one, "n2": {"512 (log)": [b"a", b"b"]}})
    with pytest.raises(Violation, match=r"^convergence: space 512 \(log\) differs: .* n3 alone has 63"):
        check_same_data({"n1": one, "n3": {"512 (log)": [b"a", b"c"]}})
    with pytest.raises(Violation, match="n3 has none"):
        check_same_data({"n1": one, "n3": {}})
    with pytest.raises(Violation, match="in another order"):
        check_same_data({"n1": one, "n3": {"512 (log)": [b"b", b"a"]}})


# ---- the judgement of a whole set


@pytest.fixture
def ledgers() -> Ledgers:
    """Of one node: a row that is only there, one that changes, one addition."""
    made = Ledgers(Plan(0, (NodePlan("n1", {}),), ()))
    made.logs[0].fates[made.logs[0].ask()] = DONE
    made.histories[1].add("REPLACE 100", lambda rows: rows.__setitem__(100, ("text", 5)), 1.0).done_at = 2.0
    made.counters[2] = Counter(asked=1, done=1)
    return made


def test_data_as_it_was_acknowledged_is_right(ledgers: Ledgers) -> None:
    judge_data("n1", {LOG: [[0, 1, ""]], DATA: [], COUNTER: [[2, 1]], BANK: [[0, 100]]}, ledgers)
    judge_histories([[100, "text", 5]], ledgers)


def test_each_lost_write_is_found(ledgers: Ledgers) -> None:
    with broken("durability"):
        judge_data("n1", {LOG: [], DATA: [], COUNTER: [[2, 1]], BANK: []}, ledgers)
    with broken("durability"):
        judge_data("n1", {LOG: [[0, 1, ""]], DATA: [], COUNTER: [], BANK: []}, ledgers)
    with broken("durability"):
        judge_histories([], ledgers)
    with broken("durability"):
        judge_histories([[100, "text", 6]], ledgers)
