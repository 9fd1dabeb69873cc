"""Values known while reading."""
