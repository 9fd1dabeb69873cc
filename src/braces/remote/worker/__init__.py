"""The worker: server, sessions, and processes that run it."""
