"""Programs with control flow that learn from real input; `python -m examples.NAME` runs one."""
