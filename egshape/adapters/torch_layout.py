"""How the elements of arguments lie in memory, on which torch compiles anew: of empty tensors, and along axes of size
1, strides say nothing, and torch takes those that a tensor happens to have for those that it must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from egshape.adapters.torch_arguments import arguments_of, axis_of, by_argument, leaves

SIZES = (7, 11, 13, 17, 19, 23, 29, 31)
"""Of made-up tensors, one for each name."""


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements that lie in order, the last axis innermost."""
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))


def layout_of(x: Any) -> Any:
    """What torch compiles for where elements do not lie in order; None where they do."""
    return None if x.stride() == _in_order(x.shape) else (x.shape, x.stride())


def regular(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in which the strides of tensors whose elements lie in order say so, and no empty one stands twice."""
    import torch
    from torch.utils._pytree import tree_map_only

    met: set[int] = set()

    def one(x: Any) -> Any:
        strides = _in_order(x.shape)
        twice = id(x) in met and not x.numel()
        met.add(id(x))
        if type(x) is not torch.Tensor or not (twice or (x.stride() != strides and x.is_contiguous())):
            return x
        return x.as_strided(x.shape, strides)

    if not kwargs and all(isinstance(x, torch.Tensor) for x in args):
        return tuple(map(one, args)), kwargs
    return tree_map_only(torch.Tensor, one, (args, kwargs))  # type: ignore[no-any-return]


def enlarged(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any) -> list[Any] | None:
    """Made-up arguments whose open axes are above 1 where those of the given ones are not; None where none is below 2,
    or larger ones are not to be had."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    given = arguments_of(model, args, kwargs)
    wanted = by_argument(shapes, list(given))
    open_ = [(x, axes) for name, value in given.items() for _, x, axes in leaves(value, wanted.get(name), name)]
    flat, spec = tree_flatten(tuple(args))
    small = any(x.shape[axis] < 2 for x, axes in open_ for axis in axes)
    if not small or len(flat) != len(open_) or any(x is not y for x, (y, _) in zip(flat, open_, strict=True)):
        return None
    numbers: dict[str, int] = {}
    made = [_enlarged(x, axes, numbers) if isinstance(x, torch.Tensor) else x for x, axes in open_]
    return None if any(each is None for each in made) else list(tree_unflatten(made, spec))


def _enlarged(x: Any, axes: Mapping[int, Any], numbers: dict[str, int]) -> Any:
    shape = list(x.shape)
    for axis, entry in axes.items():
        said = axis_of(entry)
        (name,) = said.size.symbols() if said.size is not None else (f"{len(numbers)}.",)
        number = numbers.setdefault(name, SIZES[len(numbers) % len(SIZES)])
        shape[axis] = number if said.size is None else said.size.evaluate({name: number})
        if not said.takes(shape[axis]):
            return None
    made = x.new_zeros(shape)
    return made.requires_grad_() if x.requires_grad else made
