"""Training: loops over epochs that resume, their history, metrics and callbacks."""
