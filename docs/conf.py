"""How Sphinx builds the site: `make docs`; nothing is fetched, neither now nor by the pages."""

from __future__ import annotations

import sys
from pathlib import Path

import hgkt

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

from generated_pages import write_api, write_methods  # noqa: E402

project = "hgkt"
author = "The hgkt developers"
release = version = hgkt.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext", "_templates", "examples/*.ipynb", "examples/*.py"]
default_role = "py:obj"
# Cut JSON is shown as it is, and a lexer may fail on "…"; numpydoc links an attribute by its bare
# name, which several classes have.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

# ---------------------------------------------------------------- generated pages
write_api(HERE / "api")
write_methods(HERE / "method")

# ---------------------------------------------------------------- Markdown
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# ---------------------------------------------------------------- API
autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_default_options = {
    # scikit-learn writes these itself, with links into its own documentation.
    "exclude-members": "set_fit_request, set_partial_fit_request, set_predict_request, "
    "set_predict_proba_request, set_score_request, set_decision_function_request, "
    "get_metadata_routing"
}
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ---------------------------------------------------------------- gallery
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!plot_)",  # scripts to run by hand
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.use_style",),
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "capture_repr": (),
    "remove_config_comments": True,
    "min_reported_time": 1000,
    "write_computation_times": False,
}

# ---------------------------------------------------------------- pages
html_theme = "pydata_sphinx_theme"
html_title = "hgkt"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "which_tool": [], "errors": [], "changelog": []}
project_copyright = author
