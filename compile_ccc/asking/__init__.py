"""Values on demand: what Python asks of traced values, and what it is told."""
