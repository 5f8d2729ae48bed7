"""Compiled graphs beside vendors' libraries on a GPU: ``python -m benchmarks.cuda``."""
