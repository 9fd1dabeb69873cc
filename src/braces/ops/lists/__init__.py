"""Lists (histories) and their cotangents."""
