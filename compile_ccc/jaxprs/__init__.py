"""Programs of JAX, written down equation by equation."""
