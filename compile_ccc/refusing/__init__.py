"""What tracing refuses, and how it says so."""
