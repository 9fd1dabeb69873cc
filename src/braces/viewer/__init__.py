"""Views of programs: a page for the browser, a fragment for notebooks, DOT for Graphviz."""
