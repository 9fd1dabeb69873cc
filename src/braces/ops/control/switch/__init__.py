"""The switch operator."""
