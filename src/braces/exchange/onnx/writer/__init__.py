"""Programs of Braces as models of ONNX."""
