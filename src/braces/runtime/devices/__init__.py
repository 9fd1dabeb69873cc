"""Devices of a run, and agreement between processes."""
