"""References of `braces.ops.special.bessel`."""

from __future__ import annotations

from scipy import special

from tests.ops.reference import Reference
from tests.ops.references.elementwise.unary import real

REFERENCES = {
    name: Reference(real(getattr(special, name))) for name in ("i0", "i0e", "i1", "i1e")
}
