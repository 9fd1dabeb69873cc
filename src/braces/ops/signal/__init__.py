"""FFT and framing."""
