"""Doctor: from logs, dumps, counters and traces to the cause, its evidence and what to do."""
