"""The machines that graphs are planned for, by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from egshape.ir.expand import expand
from egshape.ir.graph import Block, Graph, Op, Value
from egshape.plan.analysis.images import images, runs_in_parts
from egshape.plan.cpu import attention, byte_elements, products
from egshape.plan.cpu.channels import channels_last
from egshape.plan.cpu.convolution import separable
from egshape.plan.cpu.recurrent.cluster import find as recurrences
from egshape.plan.form import donated
from egshape.plan.form.epilogue import Readers
from egshape.plan.form.forms import in_form
from egshape.plan.form.inlined import inlined
from egshape.plan.form.named import named
from egshape.plan.form.planner import Planner
from egshape.plan.form.signed import signed
from egshape.plan.form.steps import Cluster, Steps, Target
from egshape.plan.form.summed import summed
from egshape.plan.gpu.attention import find as flash
from egshape.plan.gpu.product import find as gpu_products
from egshape.plan.gpu.product.beside import beside
from egshape.plan.ir.program import Program


def _panels(
    p: Steps, block: Block, number: int, uses: Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster:
    place = block, number, uses, taken, waiting
    joined = (attention.find(*place) or separable.find(p, *place)) if p.known.forms else None
    return joined or products.find(*place)


def _tiles(
    p: Steps, block: Block, number: int, uses: Readers, taken: Collection[Op], waiting: Collection[Value]
) -> Cluster:
    place = block, number, uses, taken, waiting
    return flash.find(p, *place) or gpu_products.find(p, *place)


TARGETS = {
    "llvm": Target(
        in_order=True,
        moves_memory=True,
        is_product=products.is_product,
        product=_panels,
        widening=byte_elements.widening,
        laid_out=channels_last,
        functions=lambda graph: graph,
        recurrences=recurrences,
        in_parts=True,
    ),
    "cuda": Target(
        in_order=False,
        moves_memory=False,
        is_product=lambda p, op: gpu_products.is_product(op),
        product=_tiles,
        widening=lambda block: (),
        laid_out=beside,
        functions=named,
        recurrences=lambda p, block: (),
    ),
}


def plan(
    graph: Graph, facts: str = "all", target: str = "llvm", *, tiles: Collection[str] = (), widens: bool = False
) -> Program:
    """The host program of a graph. ``facts``: how much of what is known about sizes is used (``known.Level``);
    ``target``: a name of TARGETS; ``tiles``, ``widens``: what it multiplies by tiles, and whether it widens f16 by an
    instruction (``Target``). Raises Unsupported, naming op and location, for what is not compiled."""
    whole, machine = expand(graph), replace(TARGETS[target], tiles=tiles, widens=widens)
    whole = summed(inlined(machine.functions(in_form(whole) if facts == "all" else whole)))
    whole = donated.with_updates(signed(whole))
    laid_out = machine.laid_out(whole)
    program = Planner(laid_out, machine, facts).plan()
    over = images(laid_out) if machine.in_parts else ""
    return replace(program, images=over) if over and runs_in_parts(program, over) else program
