"""Batch axis: dataflow analysis, and masking of padding."""
