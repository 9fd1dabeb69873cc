"""Parts that all edits share: places, walks, type inference, transactions."""
