"""Rules of layers: windows, matrix products, normalization, recurrence, losses."""
