"""`python -m benchmarks models` and `python -m benchmarks scaling`."""

from benchmarks.command import main

raise SystemExit(main())
