"""HTML pages from jinja2 templates. A template is in the folder of the code that fills it; the
style sheet and the shared macros are in this folder."""

from pathlib import Path
from typing import Any

import jinja2

from experiments.results import files

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[1]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write(path: Path, template: str, **values: Any) -> None:
    """Renders the template, a path below experiments/, and replaces the file at `path`."""
    files.write(path, ENVIRONMENT.get_template(template).render(values).encode())
