"""Programs as data: records, and their forms as bytes, text and fingerprint."""
