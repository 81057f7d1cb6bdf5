"""Run directories: configuration, metrics, checkpoints, summary."""
