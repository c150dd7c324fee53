"""The text of terms, types and values."""
