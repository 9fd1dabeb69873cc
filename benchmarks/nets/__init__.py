"""Training of three networks, written for each library in the style of its users."""
