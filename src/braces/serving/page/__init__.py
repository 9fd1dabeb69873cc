"""The page to try a model by hand: one HTML file without other resources."""
