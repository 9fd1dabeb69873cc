"""Models that other packages ship, as files of ONNX, by Braces and by ONNX Runtime.

`examples/real_models` says which, finds them, and makes what they are shown. `task.py` has one
run of one file; each other module is a library.
"""
