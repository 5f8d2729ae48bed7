"""Deciding questions about sizes at once: what is known, solved, and the theory that answers by it."""
