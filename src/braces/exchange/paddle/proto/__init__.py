"""The imported part of Paddle's protobuf schema, and its generated module."""
