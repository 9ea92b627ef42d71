"""The wheel contains the library alone and works with its dependencies alone."""

import email
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import jsketch

ROOT = Path(__file__).parents[2]
# a program in which the packages of the extras cannot be imported
WITHOUT_EXTRAS = """
import sys
for name in "jinja2 matplotlib pandas pooch pyarrow sklearn tqdm river xarray".split():
    sys.modules[name] = None
import importlib, pkgutil
import jsketch
assert jsketch.__file__.startswith(sys.argv[1]), jsketch.__file__
for module in pkgutil.walk_packages(jsketch.__path__, "jsketch."):
    if "adapters" not in module.name and "suggest.tables" not in module.name:
        importlib.import_module(module.name)
print(jsketch.__version__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of a wheel, built from a copy that has no files of earlier builds."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    for folder in ("jsketch", "experiments", "tests", "scripts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, copy)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(out)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    [built] = out.glob("*.whl")
    return built


def test_the_wheel_contains_the_library_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        [file] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(file))
    sources = {
        path
        for path in (ROOT / "jsketch").rglob("*")
        if path.suffix in (".py", ".md", ".typed", ".jinja")
    }
    assert names == {str(path.relative_to(ROOT)) for path in sources}
    assert {"jsketch/py.typed", "jsketch/THEORY.md", "jsketch/suggest/__init__.py"} <= names
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = {need for need in metadata.get_all("Requires-Dist") if "extra ==" not in need}
    # builders may order the bounds of a version
    assert set(map(Requirement, requirements)) == set(map(Requirement, project["dependencies"]))
    assert metadata["Requires-Python"] == project["requires-python"]


def test_the_library_is_imported_without_the_extras(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-c", WITHOUT_EXTRAS, str(tmp_path)]
    options = dict(cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    process = subprocess.run(command, **options, check=True, capture_output=True, text=True)
    assert f"-{process.stdout.strip()}-" in wheel.name


def test_an_experiment_without_its_packages_names_the_extra(tmp_path):
    """`pip install '.[tables]'` lacks packages of the experiments."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfor name in ('pooch', 'pyarrow'): sys.modules[name] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-m", "experiments.pools.picture"]
    options = dict(cwd=tmp_path, env=os.environ | dict(PYTHONPATH=path), text=True)
    process = subprocess.run(command, **options, capture_output=True)
    assert process.returncode != 0 and "Traceback" not in process.stderr
    words = r"not installed \(pooch, pyarrow\): .* pip install -e '.\[experiments\]' in"
    assert re.search(words, process.stderr)


def test_the_root_exports_what_its_docstring_lists():
    names = set(jsketch.__all__)
    assert len(names) <= 30 and all(hasattr(jsketch, name) for name in names)
    listed = re.search(r"The names of this package:\n\n(.*?)\n\n", jsketch.__doc__, re.S).group(1)
    columns = (line[4:24] for line in listed.splitlines())
    assert {name for column in columns for name in re.findall(r"\w+", column)} == names


@pytest.mark.parametrize("kind", ["of the user", "stamped", "linked"])
def test_scripts_keep_the_packages_of_an_environment_of_the_user(tmp_path, kind):
    """The scripts clear only an environment with their own stamp, if the stamp is out of date. A
    link to an environment of another folder is refused."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup_env.sh", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("")
    binaries = tmp_path / ".venv/bin"
    binaries.mkdir(parents=True)
    for python in (tmp_path / "base", binaries / "python"):  # scripts that record their arguments
        python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
        python.chmod(0o755)
    if kind != "of the user":
        (tmp_path / ".venv/jsketch-stamp").write_text("of another version")
    if kind == "linked":
        (tmp_path / ".venv").rename(tmp_path / "environment")
        (tmp_path / ".venv").symlink_to(tmp_path / "environment")
    command = ["bash", "-c", "source scripts/setup_env.sh"]
    environment = os.environ | dict(JSKETCH_PYTHON=str(tmp_path / "base"))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    calls = (tmp_path / "calls").read_text()
    assert (f"-m venv --clear {tmp_path}" in calls) == (kind == "stamped")
    assert (f"-m venv {tmp_path}" in calls) == (kind == "of the user")
    assert (done.returncode, ".venv is a link" in done.stderr) == (kind == "linked",) * 2


def with_a_recorded_python(tmp_path, venv, before="", after=""):
    """The environment variables with which setup_env.sh in `tmp_path` makes `venv` by a script that
    runs the lines `before` and `after` in place of a module, and lets Python do the rest."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup_env.sh", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("")
    base = tmp_path / "base"
    base.write_text(f"""#!/bin/sh
if [ "$1" != -m ]; then exec {sys.executable} "$@"; fi
{before}
if [ "$2" = venv ]; then mkdir -p {venv}/bin; cp "$0" {venv}/bin/python; fi
{after}
""")
    base.chmod(0o755)
    return os.environ | dict(JSKETCH_PYTHON=str(base), JSKETCH_VENV=venv.name)


def test_two_first_calls_make_one_environment(tmp_path):
    """The second call waits for the first, which holds a lock, and installs nothing."""
    venv, calls_file = tmp_path / ".venv-3.13", tmp_path / "calls"
    environment = with_a_recorded_python(
        *(tmp_path, venv),
        before=f'echo "begin $2" >> {calls_file}',
        after=f'sleep 0.5; echo "end $2" >> {calls_file}',
    )
    command = ["bash", "-c", "source scripts/setup_env.sh"]
    options = dict(cwd=tmp_path, env=environment, text=True)
    calls = [
        subprocess.Popen(command, **options, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    printed = sorted((call.communicate()[0] for call in calls), key=len)
    assert [call.returncode for call in calls] == [0, 0]
    modules = [line.split()[1] for line in calls_file.read_text().splitlines()]
    one_call = ["venv", "pip", "pip", "uv", "compileall"]
    assert modules == [module for module in one_call for _ in ("begin", "end")]
    assert (venv / "jsketch-stamp").exists() and not (tmp_path / ".venv").exists()
    assert printed[0] == "Another call is making .venv-3.13; this one waits for it.\n"
    assert "1.7 GB of disk" in printed[1] and printed[1].endswith("The environment is ready.\n")


@pytest.mark.parametrize(
    "setting, uv_status, with_pip",
    [
        ("global.extra-index-url='file:///more'", 0, ["uv"]),
        ("global.extra-index-url='file:///more'", 1, ["uv", "jsketch"]),
        ("global.index-url='https://example.org'", 0, ["jsketch"]),
        (":env:.no-index='1'", 0, ["jsketch"]),
    ],
    ids=["uv", "uv fails", "index", "no index"],
)
def test_pip_installs_where_it_has_an_index_of_its_own_or_uv_fails(
    tmp_path, setting, uv_status, with_pip
):
    environment = with_a_recorded_python(
        *(tmp_path, tmp_path / ".venv"),
        before=f'echo "$@" >> {tmp_path}/calls',
        after=f"""if [ "$2 $3" = "pip config" ]; then echo "{setting}"; fi
if [ "$2" = uv ]; then exit {uv_status}; fi""",
    )
    command = ["bash", "-c", "set -euo pipefail; source scripts/setup_env.sh"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and ("uv failed" in done.stderr) == bool(uv_status)
    calls = (tmp_path / "calls").read_text().splitlines()
    installed = [call.split()[-1] for call in calls if call.startswith("-m pip install")]
    names = {"uv": "uv", f"{tmp_path}[test]": "jsketch"}
    assert [names[last] for last in installed] == with_pip
    assert any(call.startswith("-m uv pip install") for call in calls) == ("uv" in with_pip)
