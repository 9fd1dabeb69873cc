"""Examples of the gallery; docs/gallery/ has a page with the result of each."""
