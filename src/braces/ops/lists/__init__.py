"""List operators and their cotangents."""
