"""What a program reads and writes while it is traced, and whether it still holds."""
