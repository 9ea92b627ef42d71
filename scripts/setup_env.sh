# Sourced by the other scripts: prints their help for -h and --help, which needs no environment.
# Otherwise makes .venv in the repository root, installs jsketch and its tools there unless they are
# up to date, and sets PYTHON to its interpreter. JSKETCH_PYTHON is the Python (3.11 or newer) that
# makes .venv; the default is the first suitable one below. JSKETCH_VENV is another name for the
# folder .venv.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# the texts are those of the commands (tests/whole/test_help.py)
for argument in "$@"; do
    if [ "$argument" = -h ] || [ "$argument" = --help ]; then
        cat "$ROOT/scripts/help/${0##*/}.txt"
        exit 0
    fi
done
VENV_NAME="${JSKETCH_VENV:-.venv}"
VENV="$ROOT/$VENV_NAME"
PYTHON="$VENV/bin/python"
# Python imports nothing from the folder in which a command is started, because a pandas.py beside a
# table of data must not run.
export PYTHONSAFEPATH=1

# A usable python is 3.11 or newer and can make virtual environments (some systems package venv
# apart).
usable_python() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null
}

find_python() {
    local name
    if [ -n "${JSKETCH_PYTHON:-}" ]; then
        usable_python "$JSKETCH_PYTHON" && echo "$JSKETCH_PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if usable_python "$name"; then echo "$name"; return; fi
    done
}

# The environment is stale when the dependencies, the interpreter or the place of the repository
# change.
stamp_of() {
    "$1" - "$ROOT" <<'PY'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
parts = [(root / "pyproject.toml").read_bytes(), sys.version.encode(), str(root).encode()]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())
PY
}

up_to_date() {
    [ -x "$PYTHON" ] && [ -f "$VENV/jsketch-stamp" ] &&
        [ "$(stamp_of "$PYTHON" 2>/dev/null)" = "$(cat "$VENV/jsketch-stamp")" ]
}

# Waits until no other call makes the environment. The lock is that of the open file with the descriptor 9, so
# that it lasts as long as the shell holds the descriptor, and ends with the shell.
lock_env() {
    "$1" - "$VENV_NAME" <<'PY'
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print(f"Another call is making {sys.argv[1]}; this one waits for it.", file=sys.stderr, flush=True)
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass  # a file system without locks
PY
}

# uv installs in a tenth of pip's time, but reads no settings of pip: pip installs where it has an index or a proxy of
# its own, and where uv fails. Neither writes byte code, which they would do on one core.
install() {
    local settings pip=("$PYTHON" -m pip)
    local with_pip=("${pip[@]}" install --quiet --no-input --disable-pip-version-check --no-compile)
    settings="$("${pip[@]}" config list 2>/dev/null)" || true
    if ! grep -qE '\.(index-url|no-index|proxy)=' <<<"$settings" && "${with_pip[@]}" uv; then
        "$PYTHON" -m uv pip install --quiet --python "$PYTHON" --editable "$ROOT[test]" && return
        echo "uv failed; pip installs the packages." >&2
    fi
    "${with_pip[@]}" --editable "$ROOT[test]"
}

# The descriptor 9 is the file of the lock.
setup_env() {
    if up_to_date; then return 0; fi
    if [ -L "$VENV" ]; then
        echo "$VENV_NAME is a link to an environment that is not up to date or belongs to another folder:" \
            "remove the link, and run this again." >&2
        return 1
    fi
    local base
    base="$(find_python)"
    if [ -z "$base" ]; then
        echo "No usable Python found: jsketch needs Python 3.11 or newer with its venv module" \
            "(on Debian and Ubuntu: apt install python3-venv)." \
            "Install one, or set JSKETCH_PYTHON=/path/to/python." >&2
        return 1
    fi
    lock_env "$base" || return 1
    if up_to_date; then return 0; fi
    echo "The first call makes an environment in $VENV_NAME with $("$base" --version 2>&1)." \
        "It installs JAX and the tools of the experiments, tests and documentation:" \
        "1.7 GB of disk, and a minute or two, once ..."
    # an environment without a stamp may be the user's: its packages stay
    local clear=""
    if [ -f "$VENV/jsketch-stamp" ]; then clear=--clear; fi
    rm -f "$VENV/jsketch-stamp"
    if ! "$base" -m venv $clear "$VENV" </dev/null; then
        echo "Could not make the virtual environment $VENV_NAME; the reason is printed above." >&2
        return 1
    fi
    if ! install </dev/null; then
        echo "Installing jsketch into $VENV_NAME failed; pip's reason is printed above." \
            "With no network, make the packages of pyproject.toml available to pip and run this again." >&2
        return 1
    fi
    # on all cores; the tests of packages are not imported, and files that this version of Python cannot compile
    # are skipped, as by pip
    "$PYTHON" -m compileall -q -j 0 -x 'site-packages/.*/tests?/' "$VENV"/lib/python*/site-packages </dev/null >/dev/null 2>&1 || true
    if ! stamp_of "$PYTHON" >"$VENV/jsketch-stamp"; then
        echo "Could not write into $VENV_NAME; the reason is printed above." >&2
        return 1
    fi
    echo "The environment is ready."
}

setup_env 9<"$ROOT/scripts/setup_env.sh" || exit 1
