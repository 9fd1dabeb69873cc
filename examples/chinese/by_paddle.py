"""Predictions of Paddle's own predictor; runs alone, in an environment with Paddle.

    python by_paddle.py MODEL NUMBERS.npz OUT.npz

`NUMBERS.npz` holds `lengths`, and the concatenated numbers of each input.
"""

from __future__ import annotations

import sys

import numpy as np
import paddle.inference


def main(model: str, given: str, out: str) -> None:
    """Run a model once."""
    arrays = np.load(given)
    ends = [0, *np.cumsum(arrays["lengths"]).tolist()]
    config = paddle.inference.Config(model)
    config.disable_glog_info()
    predictor = paddle.inference.create_predictor(config)
    for name in predictor.get_input_names():
        handle, numbers = predictor.get_input_handle(name), arrays[name].reshape(-1, 1)
        handle.reshape(numbers.shape)
        handle.copy_from_cpu(numbers)
        handle.set_lod([ends])
    predictor.run()
    (name,) = predictor.get_output_names()
    np.savez(out, labels=predictor.get_output_handle(name).copy_to_cpu())


if __name__ == "__main__":
    main(*sys.argv[1:])
