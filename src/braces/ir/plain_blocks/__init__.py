"""Plain blocks: inlining, and values that escape from them."""
