"""ONNX models of other packages, by Braces and by ONNX Runtime.

`examples/real_models` lists them, finds them, and creates their inputs. `task.py` has one
run of one file; each other module is a library.
"""
