"""Convolutions on this processor."""
