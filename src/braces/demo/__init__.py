"""The demo: a recurrent net learns handwritten digits, and is run again from its file."""
