"""Plans are values: drawn from a seed, cut down, and the same again."""

from __future__ import annotations

from headwater.options import Options
from headwater.sim.cluster.faults import Kind
from headwater.sim.cluster.plan import Plan, draw_plan
from headwater.sim.cluster.run import ClusterReport
from headwater.sim.cluster.shrink import Recipe, Shrinker

PLANS = [draw_plan(seed, nodes=nodes) for nodes in (2, 3, 5) for seed in range(100)]


def test_plan_of_a_seed_is_always_the_same() -> None:
    assert draw_plan(5, nodes=4) == draw_plan(5, nodes=4)
    assert draw_plan(5, nodes=4).lines() != draw_plan(6, nodes=4).lines()


def test_options_are_such_as_a_node_takes() -> None:
    for plan in PLANS:
        for node in plan.nodes:
            Options.load(node.options)


def test_every_kind_of_fault_topology_and_member_is_drawn() -> None:
    assert {fault.kind for plan in PLANS for fault in [*plan.faults, *plan.early, *plan.moves]} == set(Kind)
    assert {plan.topology for plan in PLANS} == {"mesh", "ring", "star"}
    nodes = [node for plan in PLANS for node in plan.nodes]
    assert any(node.is_anon for node in nodes)
    assert any(node.starts_at and not node.is_anon for node in nodes)
    assert any(node.may_lose for node in nodes)
    assert any(plan.early for plan in PLANS)


def test_every_plan_has_founders_who_can_write() -> None:
    for plan in PLANS:
        assert plan.nodes[0] in plan.founders
        assert plan.nodes[0].is_writable


def test_node_that_may_lose_rows_follows_everybody_and_loses_power_once() -> None:
    for plan in PLANS:
        voters = [node for node in plan.nodes if not node.is_anon and not node.starts_at]
        for node in plan.nodes:
            cuts = [fault for fault in plan.faults if fault.kind is Kind.POWER_CUT and node.name in fault.nodes]
            if node.may_lose:
                assert len(node.options["replication"]) == len(voters)
                assert len(cuts) <= 1


def test_some_sets_have_a_busy_processor() -> None:
    busy = [plan for plan in PLANS if plan.lateness]
    assert 0 < len(busy) < len(PLANS) / 2
    assert not any(draw_plan(plan.seed, nodes=3, plain=True).lateness for plan in busy)
    assert "always: a processor that is up to" in "".join(busy[0].lines())


def test_faults_come_in_their_order() -> None:
    for plan in PLANS:
        times = [fault.at for fault in plan.faults]
        assert times == sorted(times)


def test_part_of_a_plan_is_a_plan() -> None:
    plan = next(plan for plan in PLANS if plan.early and len(plan.faults) > 4)
    part = plan.only([-1, 1, 3])
    assert part.faults == (plan.faults[1], plan.faults[3])
    assert part.early == plan.early[:1]
    assert part.nodes == plan.nodes
    assert plan.only(plan.numbers) == plan


# ---- shrinking


def failing_with(*needed: Kind, steps: int = 1) -> tuple[Shrinker, Recipe]:
    """A run that fails if all these kinds of faults strike, and so much work is done."""

    def run(plan: Plan) -> ClusterReport:
        kinds = {fault.kind for fault in plan.faults}
        fails = kinds.issuperset(needed) and plan.steps >= steps
        return ClusterReport(plan.seed, violation="liveness: stuck" if fails else "")

    seed = next(seed for seed in range(1000) if run(draw_plan(seed, nodes=3)).violation)
    recipe = Recipe(seed, 3, 24)
    return Shrinker(recipe, "liveness", run=run), recipe


def test_shrinking_leaves_what_the_failure_needs() -> None:
    shrinker, recipe = failing_with(Kind.KILL, Kind.RESET, steps=5)
    best = shrinker.shrink()
    assert best.faults is not None
    assert {fault.kind for fault in best.plan().faults} == {Kind.KILL, Kind.RESET}
    assert len(best.faults) == 2
    assert best.steps == 6
    assert best.command().startswith(f"headwater sim --seed {recipe.seed} --nodes 3 --steps 6 --faults=")


def test_shrinking_finds_that_no_fault_is_needed() -> None:
    shrinker, _ = failing_with()
    best = shrinker.shrink()
    assert best.faults == ()
    assert best.steps == 1
    assert best.plain


def test_shrinking_keeps_to_the_same_promise() -> None:
    recipe = Recipe(1, 3, 24)
    shrinker = Shrinker(recipe, "durability", run=lambda plan: ClusterReport(plan.seed, violation="liveness: stuck"))
    assert shrinker.shrink() == recipe


def test_shrinking_ends_after_so_many_runs() -> None:
    recipe = Recipe(3, 5, 24)
    shrinker = Shrinker(recipe, "order", run=lambda plan: ClusterReport(plan.seed), tries=7)
    assert shrinker.shrink() == recipe
    assert shrinker.tries == 7
