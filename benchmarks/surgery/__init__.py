"""Recipes of `docs/guides/surgery/recipes` beside PyTorch and PEFT.

`recall` trains and imports the transformer of the recipes. `beside_torch` runs each recipe and
its peer. Both need `torch`, `beside_torch` also `peft`; tests need neither.
"""
