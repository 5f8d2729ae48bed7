"""Products, of whatever kind and dtypes, with their epilogues on this processor."""

from __future__ import annotations

from collections.abc import Collection

from egshape.ir.graph import Block, Op, Value
from egshape.plan.cpu import byte_elements, contraction, halves, integers
from egshape.plan.cpu.convolution import bytes as convolution_bytes
from egshape.plan.cpu.convolution import in_parts, kinds
from egshape.plan.cpu.convolution import products as convolution
from egshape.plan.form import convolution_loops, epilogue
from egshape.plan.form.steps import Steps


def is_product(p: Steps, op: Op) -> bool:
    """Whether an op is computed by panels of products."""
    return (
        contraction.is_product(op)
        or halves.is_product(op)
        or kinds.is_product(op)
        or byte_elements.is_product(p, op)
        or convolution_bytes.is_product(p, op)
    )


class Cluster(epilogue.Cluster):
    """A product and its epilogue."""

    def emit(self, p: Steps) -> None:
        """Add the kernels."""
        if self.ops[0].name == "convolution":
            _convolution(p, self)
        elif self.ops[0].attrs["dtype"] == "i32":
            integers.emit(p, self)
        elif halves.is_product(self.ops[0]):
            halves.emit(p, self)
        else:
            contraction.product(p, self)


def find(
    block: Block, number: int, uses: epilogue.Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster:
    """The cluster of a product, as ``epilogue.find`` finds it."""
    found = epilogue.find(block, number, uses, taken, waiting)
    return Cluster(found.ops, found.elementwise)


def _convolution(p: Steps, cluster: Cluster) -> None:
    whole = cluster.ops[0].attrs["dtype"] == "i32"
    if whole and not convolution_bytes.is_product(p, cluster.ops[0]):  # an operand got a buffer of i32 in the meantime
        convolution_loops.direct(p, cluster.ops[0])
        p.buffer(cluster.result)
        return
    split = not whole and kinds.in_parts(p, cluster.ops[0])
    kind = convolution_bytes.Bytes if whole else in_parts.InParts if split else convolution.Convolution
    kind(p, cluster).emit()
