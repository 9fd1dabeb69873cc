"""Scripts and styles of pages, and their hashes in a content security policy."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def read_asset(package: str, name: str) -> str:
    """Return a file of the assets folder of a package, also from a zip archive."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


def policy_hash(text: str) -> str:
    """Return the source of a content security policy that allows a script or style.

    Example:
        >>> policy_hash("")
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
