"""Recipes of `docs/surgery/recipes` beside PyTorch and PEFT; see the README there.

Each module is a script: `python -m benchmarks.surgery.lora`. `requirements.txt` lists what the
scripts need; tests need none of it.
"""
