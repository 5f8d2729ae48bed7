"""``egshape.torch``: programs of PyTorch, exported or compiled so that every size stays open.

graph = egshape.torch.export(model, (x,), dynamic_shapes={"x": {0: "batch", 1: "length"}})
fast = egshape.torch.compile(model, ({0: "batch", 1: "length"},))
print(egshape.torch.report())
"""

from egshape.adapters.torch_compile import CompiledGraph, Report, backend, report, reset
from egshape.adapters.torch_export import export
from egshape.adapters.torch_module import CompiledModule, compile
from egshape.adapters.torch_out import module

__all__ = ["CompiledGraph", "CompiledModule", "Report", "backend", "compile", "export", "module", "report", "reset"]
