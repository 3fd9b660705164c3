"""Where items come from: logs, this node, Prometheus. The only part of the watch that reads and writes."""
