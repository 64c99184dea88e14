"""Makes a failing plan small: fewer faults, less work, ordinary options, as long as the same kind of promise is broken.

A run of a smaller plan is another run: what does not fail any more proves nothing, what still fails is easier to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.sim.cluster.plan import Plan, draw_plan
from headwater.sim.cluster.run import ClusterReport, ClusterRun

TRIES = 150
"""Runs that one shrinking may take."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a plan is drawn again."""

    seed: int
    nodes: int
    steps: int
    faults: tuple[int, ...] | None = None
    """Numbers of those that are left; None for all."""
    plain: bool = False

    def plan(self) -> Plan:
        plan = draw_plan(self.seed, nodes=self.nodes, steps=self.steps, plain=self.plain)
        return plan if self.faults is None else plan.only(self.faults)

    def command(self) -> str:
        words = [f"headwater sim --seed {self.seed} --nodes {self.nodes} --steps {self.steps}"]
        if self.faults is not None:
            words.append("--faults=" + ",".join(map(str, self.faults)))
        return " ".join([*words, *(["--plain"] if self.plain else [])])


class Shrinker:
    def __init__(
        self,
        recipe: Recipe,
        promise: str,
        *,
        run: Callable[[Plan], ClusterReport] = lambda plan: ClusterRun(plan).run(),
        tries: int = TRIES,
    ) -> None:
        """`promise`: which one `recipe` breaks."""
        self.best = recipe
        self.tries = 0
        self._promise = promise
        self._run = run
        self._limit = tries

    def shrink(self) -> Recipe:
        self._take(Recipe(self.best.seed, self.best.nodes, self.best.steps, (), self.best.plain))
        self._fewer_faults()
        self._fewer_steps()
        self._plain()
        self._fewer_faults()
        return self.best

    def _fails(self, recipe: Recipe) -> bool:
        if self.tries >= self._limit:
            return False
        self.tries += 1
        return self._run(recipe.plan()).promise == self._promise

    def _take(self, recipe: Recipe) -> bool:
        """The new best one, if it fails, too."""
        if recipe == self.best or not self._fails(recipe):
            return False
        self.best = recipe
        return True

    def _fewer_faults(self) -> None:
        """Leave out halves, then quarters, …, then single ones (delta debugging)."""
        best = self.best
        numbers = list(best.plan().numbers if best.faults is None else best.faults)
        size = max(1, len(numbers) // 2)
        while numbers:
            at = 0
            while at < len(numbers):
                rest = numbers[:at] + numbers[at + size :]
                if self._take(Recipe(best.seed, best.nodes, self.best.steps, tuple(rest), self.best.plain)):
                    numbers = rest
                else:
                    at += size
            if size == 1:
                return
            size //= 2

    def _fewer_steps(self) -> None:
        best = self.best
        steps = best.steps
        while steps > 1:
            steps //= 2
            self._take(Recipe(best.seed, best.nodes, steps, best.faults, best.plain))

    def _plain(self) -> None:
        best = self.best
        if not best.plain:
            self._take(Recipe(best.seed, best.nodes, best.steps, best.faults, plain=True))
