"""Rules that operators of all families share: dtypes, axes, derivatives."""
