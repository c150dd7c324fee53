"""Benchmarks against JAX: `python -m benchmarks models`, `scaling`, `calls` and `suites`.  See docs/benchmarks.md."""
