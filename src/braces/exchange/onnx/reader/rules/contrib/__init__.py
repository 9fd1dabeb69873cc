"""Rules of the domain com.microsoft."""
