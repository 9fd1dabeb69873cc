"""Shared parts of all block operators: interface, residuals, value flow."""
