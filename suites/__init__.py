"""Test suites of other projects, imported into Braces and compared with their results.

`python -m suites jax` runs a suite, `python -m suites jax --write` writes its page. A suite is
a package in this folder with `PACKAGES`, the libraries whose versions the page names, and
`GROUPS`, its groups of cases.
"""
