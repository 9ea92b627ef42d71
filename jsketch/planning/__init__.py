"""A plan before the run: how long it will take, how much memory, and where the time goes."""

from jsketch.planning.machine import Machine
from jsketch.planning.plan import Plan, covers, plan

__all__ = ["Machine", "Plan", "covers", "plan"]
