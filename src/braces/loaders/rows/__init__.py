"""Rows that are read by their numbers: columns, tables, order, buckets."""
