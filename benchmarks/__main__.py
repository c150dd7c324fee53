"""`python -m benchmarks models`, `scaling`, `calls`, `loops`, `trees` and `suites`."""

from benchmarks.command import main

raise SystemExit(main())
