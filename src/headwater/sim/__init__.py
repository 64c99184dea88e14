"""The simulated world: one process, one seed, virtual time. No room above imports it. docs/simulation.md."""

from headwater.sim.world import Machine, Simulation, SimWorld

__all__ = ["Machine", "SimWorld", "Simulation"]
