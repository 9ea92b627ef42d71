"""The sessions of pytest that scripts/mutate starts, in a copy of the tree:

    session.py record OUTPUT ARGUMENT      runs the tests of instrumented source files (mutants.py),
                                           and writes {test: [seconds, called functions]} of those
                                           that pass
    session.py run TESTS                   runs the tests listed in a file, in this order, until one
                                           fails

A fault may keep a file of tests from being collected. This counts as a failure, with the status 2.
"""

import json
import sys
from pathlib import Path

import mutation_hits
import pytest

OPTIONS = ("-q", "-p", "no:xdist", "--no-header")


class Recorder:
    """A plugin of pytest that collects `tests` and the names of those that `failed`."""

    def __init__(self):
        self.tests = {}
        self.failed = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        mutation_hits.clear()
        result = yield
        if item.nodeid in self.tests:
            self.tests[item.nodeid][1] = sorted(mutation_hits.SEEN)
        return result

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.tests[report.nodeid] = [report.duration, []]
        elif report.failed:
            self.failed.add(report.nodeid)


class Order:
    """A plugin of pytest that keeps the tests with these names, and sorts them."""

    def __init__(self, names):
        self.position = {name: i for i, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        kept = [item for item in items if item.nodeid in self.position]
        items[:] = sorted(kept, key=lambda item: self.position[item.nodeid])


def record(output, argument):
    recorder = Recorder()
    status = pytest.main([*OPTIONS, argument], plugins=[recorder])
    tests = {name: test for name, test in recorder.tests.items() if name not in recorder.failed}
    Path(output).write_text(json.dumps(tests))
    return status


def run(tests):
    names = Path(tests).read_text().splitlines()
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    return pytest.main([*OPTIONS, "-x", *files], plugins=[Order(names)])


if __name__ == "__main__":
    sys.exit(dict(record=record, run=run)[sys.argv[1]](*sys.argv[2:]))
