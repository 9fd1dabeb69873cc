"""ONNX, both ways."""
