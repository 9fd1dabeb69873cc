"""Options, input files and output that several commands share."""
