"""A plan before the run: how long it will take, how much memory, and where the time goes."""

from jsketch.planning.plan import Plan, plan
from jsketch.planning.spread import Devices, Messages, Room, room

__all__ = ["Devices", "Messages", "Plan", "Room", "plan", "room"]
