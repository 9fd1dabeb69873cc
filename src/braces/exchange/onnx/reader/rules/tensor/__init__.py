"""Rules of tensor operators."""
