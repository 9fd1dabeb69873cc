"""The ONNX graph during export: nodes, names, sizes, dtypes and files."""
