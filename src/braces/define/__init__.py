"""Operator definitions: schema, attribute kinds, inference, and the `@op` decorator."""
