"""What a program costs on devices that are not there: compiled ahead, read, and estimated."""
