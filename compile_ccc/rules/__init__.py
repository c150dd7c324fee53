"""Rules of `jax.custom_jvp` and `jax.custom_vjp`."""
