"""`python -m benchmarks models`, `scaling`, `calls`, `loops` and `suites`."""

from benchmarks.command import main

raise SystemExit(main())
