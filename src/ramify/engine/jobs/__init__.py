"""Jobs: queues, how jobs get into them, and how old ones are forgotten."""
