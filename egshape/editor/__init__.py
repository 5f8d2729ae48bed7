"""What an editor asks of rule files, apart from any protocol, and the language server (``server.py``) that answers."""
