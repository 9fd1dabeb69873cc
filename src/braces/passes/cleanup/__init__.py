"""Dead code elimination, CSE, LICM, inlining and simplification; names are preserved."""
