"""The site of jsketch. `scripts/docs` builds it."""

import importlib
import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS), str(ROOT)]

import docstrings
import gallery
from docutils.statemachine import StringList
from sphinx.ext.autodoc.mock import mock
from sphinx.ext.autosummary import Autosummary

import jsketch

project = "jsketch"
author = "the maintainers of jsketch"
copyright = "the maintainers of jsketch; no licence has been chosen"
version = release = jsketch.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

html_theme = "furo"
html_title = f"jsketch {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# notebooks are executed in every build; JSKETCH_DOCS_SMALL=1 gives them small sizes
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
# the next notebook and the next build load programs that were compiled before
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(DOCS / "_build" / "compiled"))
# tqdm looks for widgets, which the page does not need
os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
# notebooks call the command jsketch-suggest of this environment
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
autosummary_generate = False
# the reference is built without this extra
autodoc_mock_imports = ["optuna"]
# scikit-learn adds the second method to each regressor
autodoc_default_options = {"exclude-members": "replace, set_score_request"}
# names between backticks in docstrings are links
default_role = "py:obj"
suppress_warnings = ["myst.header", "autosummary.import_cycle"]

# files of the repository, and the pages of the site that include them
INCLUDED = {
    "jsketch/THEORY.md": "theory.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "experiments/README.md": "papers/experiments.md",
    "experiments/verdicts.toml": "papers/verdicts.md",
    "experiments/bkb_2019/README.md": "papers/bkb.md",
    "experiments/bbkb_2020/README.md": "papers/bbkb.md",
    "experiments/go_ucb_2023/README.md": "papers/go_ucb.md",
    "experiments/pkawv_2019/README.md": "papers/pkawv.md",
    "experiments/contrib/README.md": "papers/contrib.md",
    "experiments/pools/README.md": "papers/pools.md",
    "experiments/tables/README.md": "papers/tables.md",
    "experiments/suggest/README.md": "tables.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def links_to_pages(app, path: Path, parent: str, content: list[str]) -> None:
    """In an included file, a link to a file becomes a link to the page of that file, or the name of
    the file if there is no page."""
    folder = (app.srcdir / path).resolve().parent

    def link(match: re.Match) -> str:
        target = (folder / match[2]).resolve()
        if not target.is_relative_to(ROOT):
            return match[1]
        name = target.relative_to(ROOT).as_posix()
        if name.startswith("docs/"):
            return f"[{match[1]}](/{name.removeprefix('docs/')}{match[3] or ''})"
        if name in INCLUDED:
            return f"[{match[1]}](/{INCLUDED[name]}{match[3] or ''})"
        return match[1] if match[1].startswith("`") else f"`{name}`"

    content[0] = LINK.sub(link, content[0])


def without_aliases(app, what, name, obj, skip, options) -> bool | None:
    """Leaves out the undescribed fields of named tuples, whose names are in the signatures."""
    return True if str(obj.__doc__).startswith("Alias for field number") else None


OPTION = re.compile(r"(?<=[\s>])--[a-z][\w-]*")


def unbroken_options(app, page, template, context, doctree) -> None:
    """Prevents line breaks at the hyphens of command options."""

    def block(match: re.Match) -> str:
        return OPTION.sub(r'<span class="option">\g<0></span>', match[0])

    if "body" in context:
        context["body"] = re.sub(r"<pre>.*?</pre>", block, context["body"], flags=re.DOTALL)


class Names(Autosummary):
    """A table of the public classes and functions of a module, with their first sentences."""

    def run(self):
        module = importlib.import_module(self.content[0])
        with mock(self.env.config.autodoc_mock_imports):
            names = [n for n in module.__all__ if callable(getattr(module, n))]
        self.content = StringList([f"~{module.__name__}.{name}" for name in sorted(names)])
        self.options["nosignatures"] = None
        return super().run()


def setup(app) -> None:
    app.add_directive("names", Names)
    app.connect("autodoc-process-docstring", docstrings.convert)
    app.connect("autodoc-skip-member", without_aliases)
    app.connect("html-page-context", unbroken_options)
    app.connect("include-read", links_to_pages)
    app.connect("builder-inited", lambda app: gallery.write())
