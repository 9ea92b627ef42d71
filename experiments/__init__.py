"""Experiments that re-run the figures of the papers: one folder a paper, and what they share in
rooms (README.md)."""

import signal
import sys

# A command line whose packages still load: Ctrl-C just ends it. `cli.line` takes over when they
# have.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
