"""The folder of compiled programs of the tests."""

import os

from compiled import trim


def test_the_files_that_were_read_last_stay(tmp_path):
    for number, name in enumerate(["gw0/old", "gw0/new", "gw1/newest", "gw1/oldest"]):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        time = dict(old=1, new=2, newest=3, oldest=0)[path.name]
        os.utime(path, (1e9 + time, 1e9 - number))
    trim(tmp_path, 400)
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 4
    trim(tmp_path, 299)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["new", "newest"]
    trim(tmp_path / "none", 0)
