"""`python -m braces`: the command line."""

from __future__ import annotations

from braces.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
