"""Edits of programs: insertions, replacements, names, types, attributes, blocks, parameters."""
