"""Rows on a grid."""
