"""What an op's declaration knows of its contract: read and compiled when the op is used for the first time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from egshape.errors import EgshapeError

if TYPE_CHECKING:
    from egshape.rulelang.contract import Contract
    from egshape.rulelang.contract_compile import Condition, Functions
    from egshape.rulelang.contract_elements import ElementRule

Params = Sequence[tuple[str, str]]
"""Names and sorts of operands, attributes and regions, as an op is declared."""


class OpContract:
    """The contract of one op, in the file of its family under `rulesets/ops/`."""

    def __init__(
        self,
        op: str,
        family: str,
        params: Params,
        read: Callable[[str], Mapping[str, Contract]] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """``read`` gives the contracts of a family; the shipped ones by default. ``defaults``: of attributes, which an
        op that was read from text need not have."""
        self.op, self.family, self._params, self._read = op, family, tuple(params), read
        self._defaults = dict(defaults or {})
        self._attrs = frozenset(name for name, sort in params if sort not in ("T", "Ts"))

    @cached_property
    def text(self) -> Contract:
        """What stands in the file. Raises EgshapeError (code "rules") for one that is missing or wrong."""
        from egshape.rulelang.contract import contracts, wrong

        found = (self._read or contracts)(self.family).get(self.op)
        if found is None:
            raise EgshapeError(f"the op {self.op} has no contract", where=f"ops/{self.family}.egg", code="rules")
        if found.params != self._params:
            declared = " ".join(f"({name} {sort})" for name, sort in self._params)
            raise wrong(f"{self.op} is declared with other parameters", found.at, f"they are ({declared})")
        return found

    @cached_property
    def compiled(self) -> Functions:
        """Its functions. Raises EgshapeError (code "rules") for a text that breaks the law."""
        from egshape.rulelang.contract_compile import functions

        return functions(self.text)

    def elements(
        self, functions: Mapping[str, Callable[..., Any]], partial: frozenset[str] = frozenset()
    ) -> ElementRule | None:
        """What it does to the elements of shape tensors, in terms of these functions, of which ``partial`` take what is
        not known too."""
        from egshape.rulelang.contract_elements import element_rule

        return element_rule(self.text, self.op, functions, partial)

    def given(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that it speaks of, those that are not given by their defaults."""
        return {**self._defaults, **{name: item for name, item in attrs.items() if name in self._attrs}}

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The type of the result as (dtype, sizes), or a list of them. Raises EgshapeError where a requirement is
        false at all sizes."""
        return self.compiled.infer(types, {**self._defaults, **attrs})

    def conditions(self, types: Sequence[Any], attrs: Mapping[str, Any]) -> list[Condition]:
        """What the op requires of these sizes, in order, but for what holds by form."""
        return self.compiled.conditions(types, self.given(attrs))

    def hold(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """Raise CheckFailed unless arrays and attributes of a run are what the op requires."""
        self.compiled.hold(arrays, {**self._defaults, **attrs})
