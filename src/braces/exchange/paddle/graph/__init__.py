"""Program description."""
