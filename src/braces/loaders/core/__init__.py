"""Protocol, columns and checks that all data sets share."""
