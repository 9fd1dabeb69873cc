"""Layouts on devices."""
