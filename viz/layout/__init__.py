"""Boxes and arrows in layers: where each stands, so that arrows go down and boxes do not overlap (``layered``)."""
