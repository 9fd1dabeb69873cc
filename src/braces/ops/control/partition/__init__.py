"""The row-wise branch."""
