"""DCE, CSE, LICM, inlining: name-preserving clean-ups."""
