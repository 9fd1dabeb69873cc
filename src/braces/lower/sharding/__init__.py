"""Sharding of values on devices."""
