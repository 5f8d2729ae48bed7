"""egshape's own text of a graph: written and read exactly."""
