"""ONNX Runtime as a backend of an executor."""
