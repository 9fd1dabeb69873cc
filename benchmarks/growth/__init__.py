"""How the cost of a recurrent training step grows with trips, with rows and with nesting."""
