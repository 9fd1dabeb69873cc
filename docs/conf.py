"""Configuration of Sphinx for the pages of the documentation; `make docs` builds them."""

import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), *(str(DOCS.parent / name) for name in ("src", "scripts"))]

import braces as br

project, author = "Braces", "The Braces authors"
version = release = br.__version__
extensions = [
    "myst_nb",  # Markdown by myst_parser, and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.githubpages",
    "sphinx_design",
    "sphinx_copybutton",
    "braces_docs",
]
exclude_patterns = ["_build", "_ext"]
default_role = "literal"  # docstrings write `x`; braces_docs.names links names of Braces
suppress_warnings = ["myst.header"]  # pages of GitHub may begin with a smaller heading

# ---- pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Braces"
html_static_path = ["_static"]
html_css_files = ["braces.css"]
html_copy_source = False
html_show_sourcelink = False
html_search_language = "en"
html_search_scorer = str(DOCS / "_static/scorer.js")
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b57d0", "color-brand-content": "#0b57d0"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
pygments_style, pygments_dark_style = "friendly", "monokai"
languages = ("python", "py", "sh", "yaml")
copybutton_selector = ", ".join(f".highlight-{name} pre" for name in languages)
copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. |\$ ", True

# ---- notebooks: executed at each build, in an empty folder
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 240

# ---- docstrings
autodoc_typehints = "none"  # the signature shows defaults; types are in the sections
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False  # numbers, not the names of constants
python_maximum_signature_line_length = 88
add_module_names = True  # braces_docs.names writes `br.` in place of `braces.`
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [
    (name, "params_style") for name in ("Inputs", "Attributes", "Outputs")
]
