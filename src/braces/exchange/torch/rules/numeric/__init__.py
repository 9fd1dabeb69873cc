"""Rules of numerical mathematics: linear algebra, special functions and statistics."""
