"""Interpreter: kernels, hot traces and timing."""
