"""Inputs and outputs of a run: feeds, fetches, persistable variables."""
