"""The switch."""
