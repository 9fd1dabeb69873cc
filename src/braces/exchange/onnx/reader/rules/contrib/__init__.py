"""Com.microsoft."""
