"""The open inference protocol v2: datatypes, requests and responses; no network."""
