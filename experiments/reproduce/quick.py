"""Tiny sizes of all experiments, for a test that they run and draw their figures."""

import shlex

from experiments.commands import Command

# {module of experiments: options that replace those of the README}
SMALL = {
    "contrib.clients": "--horizon 20 --seeds 1 --only alone exchange_0.1 exchange_0",
    "contrib.contextual": "--horizon 20 --seeds 1 --problems squares",
    "contrib.drift": "--examples 100 --seeds 1 --only jumps turning",
    "contrib.drifting_arms": "--horizon 40 --seeds 1",
    "contrib.few_batches": "--horizon 64 --seeds 1",
    "contrib.unknown": "--horizon 40 --seeds 1 --problems draw",  # lengthscale and norm
    "contrib.width_coverage": "--horizon 20 --seeds 2",
    "bkb_2019.linear": "--horizon 100 --seeds 2",
    "bkb_2019.variance_starvation": "--seeds 1",
    "bbkb_2020.bandwidths": "--horizon 50 --seeds 1 --lengthscales 10 17.5",
    "bbkb_2020.nas_bench_101": "--horizon 100 --seeds 2",
    "bbkb_2020.regret": "--horizon 100 --seeds 2",
    "bbkb_2020.search_settings": "--horizon 50 --seeds 1",
    "bbkb_2020.settings_tried": "--horizon 50 --seeds 1",
    "bbkb_2020.ungrouped": "--horizon 20 --seeds 1",
    "bbkb_2020.widths": "--problems gp_draw_0 --seeds 1",
    # settings of GO-UCB, such as the reach
    "go_ucb_2023.choose": "--seeds 1 --reach 0.02 --regularization 0.01 --norm-bound 1.0",
    "go_ucb_2023.packages.compare": "--functions f1 --seeds 1 --algorithms skopt_ei botorch_ei",
    "go_ucb_2023.synthetic": "--functions f1 --seeds 2",
    "go_ucb_2023.tuning": "--repetitions 1 --models random_forest --data breast_cancer",
    "go_ucb_2023.turbo_original": "--seeds 1",
    "pkawv_2019.adversarial": "--rounds 8 --seeds 2 --tried 16",
    "pkawv_2019.growing_degree": "--counts 16 32 --seeds 2",
    "pkawv_2019.large_scale": "--limit 1000 --time-limit 5",
    "pkawv_2019.kors_rates": "--counts 64 128 --seeds 2",
    "pkawv_2019.orders": "--limit 1000 --seeds 2",
    "pkawv_2019.rates": "--counts 64 128 --seeds 2",
    "pkawv_2019.susy_fit": "--limit 500 --degrees 2 3",
    "tables.earlier": "--tables protein --seeds 2 --horizon 20",
    "tables.main": (
        "--tables protein nas_cifar100 --methods tpe fixed_bkb_10 --seeds 2 --horizon 20"
    ),
    "tables.reactions": "--tables deoxyfluorination --seeds 2",
    "tables.scale": "--methods jsketch random_forest --counts 2000",
    "tables.streams": "--limit 500 --data casp generated",
}
# options for experiments whose horizon includes 2,000 initial evaluations
WARM_OPTIONS = "--horizon 2100 --seeds 2"
# {folder under results/: options in place of those of its module}
SMALL_BY_FOLDER = {
    "bbkb_2020/nas_warm": WARM_OPTIONS,
    "bbkb_2020/nas_warm_code": WARM_OPTIONS,
    "bbkb_2020/nas_warm_local": WARM_OPTIONS,
    "bbkb_2020/nas_macro_warm": WARM_OPTIONS,
    # these have 423,624 arms
    "bbkb_2020/nas_whole": "--horizon 20 --seeds 1",
    "bbkb_2020/nas_whole_code": "--horizon 20 --seeds 1",
}
# for programs that run for seconds, optimized machine code takes longer to compile than it saves
XLA_FLAGS = "--xla_backend_optimization_level=0"
NOTICE = (
    "These experiments were run at a tiny size, with few seeds and short horizons, to test that all"
    " of them run: their numbers and verdicts are not results."
)


def shrink(command: Command) -> Command:
    """The same experiment at a tiny size, in one process; existing results in its folder are
    overwritten, even results of other options. Raises KeyError for an experiment without a tiny
    size."""
    module = command.module.removeprefix("experiments.")
    options = SMALL_BY_FOLDER.get(command.folder) or SMALL[module]
    small_arguments = shlex.split(options)
    if "--workers" in command.arguments:  # starting processes would take longer than the runs
        small_arguments += ["--workers", "1"]
    for name in small_arguments:
        if name.startswith("--") and name in command.arguments:
            start = command.arguments.index(name)
            end = start + 1 + len(command.values(name))
            rest = command.arguments[:start] + command.arguments[end:]
            command = command._replace(arguments=rest)
    return command._replace(arguments=(*command.arguments, *small_arguments, "--overwrite"))
