"""Loops over time steps as one kernel."""
