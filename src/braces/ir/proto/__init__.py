"""The protobuf schema and its generated code; only `braces.ir.serde` imports it."""
