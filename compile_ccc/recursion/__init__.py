"""General recursion: functions that call themselves, as function values and as machines over arrays."""
