"""Seven tasks of one page each, as one would write them on the first day."""
