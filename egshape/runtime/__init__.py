"""Runs compiled graphs with numpy alone."""

from __future__ import annotations

from egshape.runtime.artifact import load
from egshape.runtime.core.errors import RunError
from egshape.runtime.core.function import CompiledFunction
from egshape.runtime.core.versioned import VersionedFunction

__all__ = ["CompiledFunction", "RunError", "VersionedFunction", "load"]
