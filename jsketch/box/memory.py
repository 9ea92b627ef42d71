"""Will it fit? See `jsketch.memory`."""

from jsketch.memory import available as available
from jsketch.memory import check as check
