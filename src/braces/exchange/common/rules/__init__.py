"""Rules several systems share."""
