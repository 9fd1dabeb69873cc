"""The application of the server: routes, limits, access control, metrics."""
