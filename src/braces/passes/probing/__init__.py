"""Probes and patches: inner values of a program as results of a run."""
