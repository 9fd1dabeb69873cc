"""Models of ONNX, read: each node by a rule of one table."""
