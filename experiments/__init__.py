"""Experiments that reproduce the figures of the papers, with a folder for each paper."""

import sys
from importlib.util import find_spec

# the extra `experiments`, without those that jsketch imports
_PACKAGES = ("matplotlib", "pandas", "platformdirs", "pooch", "pyarrow", "sklearn", "tqdm")
_missing = [name for name in _PACKAGES if find_spec(name) is None]
if _missing:
    _message = (
        f"the experiments need packages that are not installed ({', '.join(_missing)}): use the"
        " scripts, which install them, or pip install -e '.[experiments]' in the checkout"
    )
    if sys.argv[0] == "-m":  # a command, python -m experiments.NAME, is being imported
        raise SystemExit(f"error: {_message}")
    raise ModuleNotFoundError(_message)
