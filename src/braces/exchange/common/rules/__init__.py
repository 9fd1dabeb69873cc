"""Conversion rules that several importers share."""
