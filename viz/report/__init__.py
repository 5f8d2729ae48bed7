"""One HTML file about a result, which needs nothing else: see ``page.write``."""
