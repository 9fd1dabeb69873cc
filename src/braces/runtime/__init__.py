"""Running programs: compiled by XLA, or operator by operator."""
