"""The worker: server, sessions, and their processes."""
