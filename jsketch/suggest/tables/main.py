"""The command `jsketch-suggest`: the next batch of experiments for a table of candidates."""

from jsketch.suggest.tables import command_line
from jsketch.suggest.tables.options import parse


@command_line.command
def main() -> None:
    options = parse()
    # imported after the options are checked, because it takes seconds
    from jsketch.suggest.tables import outputs

    command_line.set_up_jax()
    outputs.run(options)
