"""What users call: derivatives in JAX's words, and derivatives of one's own."""
