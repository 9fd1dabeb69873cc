"""Programs as data: records, and their serialized, text and fingerprint forms."""
