"""Adapters to other ecosystems: they may import everything, nothing below imports them."""
