"""Runs compiled graphs with numpy alone."""

from __future__ import annotations

from egshape.runtime.artifact import load
from egshape.runtime.errors import RunError
from egshape.runtime.function import CompiledFunction
from egshape.runtime.versioned import VersionedFunction

__all__ = ["CompiledFunction", "RunError", "VersionedFunction", "load"]
