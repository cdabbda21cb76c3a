"""Training side of cqk: plans, models, attention and coupling variants, executors, command line."""
