"""Cost of a program on devices that are not present: ahead-of-time compilation, estimates."""
