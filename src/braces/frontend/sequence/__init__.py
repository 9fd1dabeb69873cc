"""Decoding, CTC, CRF."""
