"""This processor."""
