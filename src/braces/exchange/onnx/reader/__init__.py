"""Import ONNX models: one conversion rule per operator."""
