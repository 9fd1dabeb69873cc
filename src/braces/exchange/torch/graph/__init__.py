"""The exported graph of torch: dtypes, storage aliasing, symbolic integers."""
