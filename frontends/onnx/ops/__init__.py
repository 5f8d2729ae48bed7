"""The declarations: importing this package imports its modules, which declare every ONNX op that has a lowering."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
