"""Model files: dtypes, external data, schema checks, example inputs."""
