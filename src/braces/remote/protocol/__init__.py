"""The protocol between client and worker."""
