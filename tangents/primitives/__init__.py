"""Pullbacks of primitives: from the table, or by JAX's rule for the one operation."""
