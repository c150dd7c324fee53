"""What terms mean: their types, and their values."""
