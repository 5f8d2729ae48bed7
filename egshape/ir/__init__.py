"""Programs: types, graphs and their text, which every graph can print."""

from egshape.ir.text import parse_graph, print_graph

__all__ = ["parse_graph", "print_graph"]
