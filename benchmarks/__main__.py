"""`python -m benchmarks models`, `scaling`, `calls` and `suites`."""

from benchmarks.command import main

raise SystemExit(main())
