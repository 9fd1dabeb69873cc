"""Names, values and rules that several importers share."""
