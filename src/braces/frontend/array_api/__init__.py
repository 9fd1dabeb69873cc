"""NumPy's and the array API's functions composed of operators."""
