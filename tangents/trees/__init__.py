"""Folds over trees in reverse mode."""
