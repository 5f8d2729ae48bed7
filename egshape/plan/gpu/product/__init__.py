"""Products on a grid."""
