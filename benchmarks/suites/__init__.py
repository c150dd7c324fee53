"""The tests of JAX, Myia, autograd and Equinox with our derivatives: `python -m benchmarks suites NAME CHECKOUT`."""
