"""The steps of a training: data, position, resume and checkpoints."""
