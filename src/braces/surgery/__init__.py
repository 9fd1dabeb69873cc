"""Surgery: programs searched, matched, cut and compared by their users."""
