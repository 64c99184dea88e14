"""A whole replica set in one process: the plan of what goes wrong, who does it, the work, and the judgement, apart from
each other. docs/simulation.md."""

from headwater.sim.cluster.plan import Plan, draw_plan
from headwater.sim.cluster.run import ClusterReport, ClusterRun, run_cluster_seed

__all__ = ["ClusterReport", "ClusterRun", "Plan", "draw_plan", "run_cluster_seed"]
