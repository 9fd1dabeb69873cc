"""Public namespaces of functions, a module each: `br.linalg`, `br.fft`, `br.signal`, …."""
