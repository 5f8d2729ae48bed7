"""Commands that an interrupt ends, wherever the tests run: a shell lets what runs in the background ignore it."""

import sys


def command(*words: str) -> list[str]:
    """``egshape`` with these words, in a process of its own."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from egshape.cli import main; sys.exit(main())"
    )
    return [sys.executable, "-c", code, *words]
