"""Pass records, the rewriting walk and the planning context."""
