"""Scripts whose packages are not installed have no examples to run."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["fuzz_torch.py", "torch_mutations.py"]
