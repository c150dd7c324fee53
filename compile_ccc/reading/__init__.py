"""Traced programs are read as λ-terms."""
