"""Recorded runs: numbers of operators, measures of values, tables, data flow."""
