"""The part of Paddle's schema that is read, and the module that is generated from it."""
