"""The guide: ``sphinx-build -W -n -b html docs docs/_build/html``. Builds without a network.

Pictures, lessons and the reference of the command line are made from the code each time, into
files that are not kept. Code cells of the pages are run; their output is what the reader sees.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from nbclient import NotebookClient

import cdopt
from cdopt.plots import palette

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "examples")]

for name in ("cdopt", "traitlets"):  # progress of solvers, and how kernels are reached
    logging.getLogger(name).setLevel(logging.ERROR)
NotebookClient.extra_arguments.default_args = (["--log-level=40"],)  # of kernels: errors alone

project = "cdopt"
author = copyright = "The cdopt developers"
version = release = cdopt.__version__
language = "en"

extensions = [
    "made_pages",  # pictures, lessons, command line
    "readable_docstrings",  # the house's docstrings, and where each name is public
    "sphinx.ext.autodoc",
    "myst_nb",
    "mathml",  # formulas that browsers draw by themselves
]
root_doc = "index"
exclude_patterns = ["_build", "_ext"]
suppress_warnings = ["mystnb.mime_priority"]

# --- pages and their code cells --------------------------------------------------------
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "cells")
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_code_prompt_show = "Show"
nb_code_prompt_hide = "Hide"

# --- reference -------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
add_module_names = False
python_use_unqualified_type_names = True
nitpick_ignore_regex = [  # what stands in annotations and has no page here
    (
        r"py:.*",
        r"(numpy|np|scipy|sp|cvxpy|cp|matplotlib|msgspec|pathlib|collections|typing|pd)\..*",
    ),
    (r"py:.*", r"(numpy\.typing\.)?(ArrayLike|NDArray)"),
    (r"py:.*", r"(Float|Int|Bool|Any)Array|.*csr_array|Figure|Axes|Path(Like)?"),
    (r"py:.*", r"Executor|Any|Points|Self"),
    (r"py:class", r"Cell|dict\[str"),
    (r"py:.*", r"(cdopt\.problem\.\w+\.)?Scaled\w+"),  # records that only cdopt makes
    (r"py:.*", r"(concurrent|dask|jax|mujoco|h5py|pandas|rich|types|fractions|os|abc|enum)\..*"),
]

# --- looks -----------------------------------------------------------------------------
html_theme = "furo"
html_title = f"cdopt {release}"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": palette.PALETTE["clarabel"].colour,
        "color-brand-content": palette.PALETTE["clarabel"].colour,
        "color-foreground-primary": palette.INK,
        "color-background-secondary": palette.BODY,
        "color-background-border": palette.RULE,
    },
    "dark_css_variables": {
        "color-brand-primary": palette.PALETTE["qoco"].colour,
        "color-brand-content": palette.PALETTE["qoco"].colour,
    },
}
