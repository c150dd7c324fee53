"""Benchmarks against JAX: `python -m benchmarks models` and `python -m benchmarks scaling`.  See docs/benchmarks.md."""
