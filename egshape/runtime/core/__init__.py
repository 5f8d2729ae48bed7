"""Calls of compiled graphs, whatever they run on."""
