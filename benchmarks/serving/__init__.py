"""The server: a load test with clients that misbehave, and its speed beside ONNX Runtime."""
