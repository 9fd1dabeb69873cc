"""The protobuf schema, and what is generated from it; `braces.ir.serde` alone imports it."""
