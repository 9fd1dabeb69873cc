"""Programs with control flow on real data; `python -m examples.NAME` runs one."""
