"""Normal forms, and equality by the laws: terms run on unknowns and are read back."""
