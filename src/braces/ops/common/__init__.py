"""Rules shared by all operator families: dtypes, axes, derivatives."""
