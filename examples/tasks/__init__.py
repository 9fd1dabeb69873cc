"""Seven tasks of one page each, in the style of a first program."""
