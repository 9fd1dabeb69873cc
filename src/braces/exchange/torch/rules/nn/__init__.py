"""Rules of neural network operators."""
