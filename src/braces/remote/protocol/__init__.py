"""The protocol of client and worker."""
