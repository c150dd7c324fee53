"""Inductive types: their constructors, their values as arrays, and which of them are worked out together."""
