"""Attention on a grid."""
