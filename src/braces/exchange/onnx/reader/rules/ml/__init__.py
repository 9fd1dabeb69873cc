"""Rules of the domain ai.onnx.ml."""
