"""Rules of arrays: arithmetic, shapes, indexing, reductions, linear algebra."""
