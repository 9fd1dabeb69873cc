"""From spelling to phonemes: an encoder, attention, and a greedy decoder in the saved model."""
