"""Base class and parameterization."""
