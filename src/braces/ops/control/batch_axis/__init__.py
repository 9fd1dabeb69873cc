"""Where the batch axis is; masking."""
