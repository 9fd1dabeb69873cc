"""Export programs of Braces as ONNX models."""
