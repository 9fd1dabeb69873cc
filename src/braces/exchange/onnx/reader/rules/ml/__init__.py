"""Ai.onnx.ml."""
