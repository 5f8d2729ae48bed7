"""The tensor half of the e-graph's language, generated from the op declarations.

Each value of the graph is a leaf ``(Node i)``; the load rules unite it with the term of its op. Elementwise ops share
the constructors ``Unary``, ``Binary`` and ``Ternary`` (an op name is their first argument, attributes are joined to it
by dots: ``"compare.LT.FLOAT"``), so that one rule speaks of all of them. Other ops without regions have a constructor
of their own name: operands, then attributes. Ops with regions, and those whose attributes the language has no sort
for, are ``Call``s of a key that Python interprets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from egshape.errors import EgshapeError
from egshape.ops.base import OpDecl

MAX_RANK = 16
"""Longest shape or axis list that rules see; a longer one stays inside an opaque call."""

ELEMENTWISE = {"unary": 1, "binary": 2, "ternary": 3}

_SORT = {
    "axes": "Axes",
    "sizes": "Shape",
    "text": "String",
    "dtype": "String",
    "int": "i64",
    "bool": "i64",
    "record": "i64",
    "float": "i64",
    "array": "i64",
}
"""Sort of an attribute; records, floats and arrays are keys that Python interprets."""

CORE = """
; A tensor; a function from axis numbers to axis numbers, and to sizes.
(sort T)
(sort AxisOfAxis (UnstableFn (i64) i64))
(sort SizeOfAxis (UnstableFn (i64) Dim))
; Operands of an op that takes any number of them.
(datatype Ts (Nil) (Cons T Ts))
; Leaves that Python names: value i of the graph, list i of operands, shape i.
(constructor Node (i64) T)
(constructor List (i64) Ts)
(constructor Shp (i64) Shape)
; An elementwise op of 1, 2 or 3 operands, by name.
(constructor Unary (String T) T)
(constructor Binary (String T T) T)
(constructor Ternary (String T T T) T)
; An op that only Python understands, by its key, with its operands and shape; result k of such an op.
(constructor Call (i64 Ts Shape) T)
(constructor Proj (T i64) T)
; The shape of a tensor, and its dtype, such as "f32".
(constructor ShapeOf (T) Shape)
(function dtype_of (T) String :no-merge)
; Axis list i, and the smallest number of a value in a class: Python fills and reads both.
(function axes_of (i64) Axes :no-merge)
(function nm (T) i64 :merge (min old new))
; Rule, made and matched: what Python logs of each union.
(relation why (i64 i64 String))
; Tables that Python fills.
(relation in_list (i64 i64 i64))
(relation in_nil (i64))
(relation in_type (i64 String i64))
(relation in_derived (i64 String i64))
(relation in_untyped (i64))
(relation in_unary (i64 String i64))
(relation in_binary (i64 String i64 i64))
(relation in_ternary (i64 String i64 i64 i64))
(relation in_call (i64 i64 i64 i64))
(relation in_proj (i64 i64 i64))
(relation in_equal (i64 i64))
; Value i is in use.
(relation live (i64))
; (neutral f c): f(c, x) = x to the bit, for a scalar c; (neutral_right f c): f(x, c) = x.
(relation neutral (String T))
(relation neutral_right (String T))
; (absorbing f c): f(x, c) = f(c, x) = c to the bit, for a scalar c.
(relation absorbing (String T))
; (negating f c): f(x, c) = f(c, x) = -x.
(relation negating (String T))
; Axis lists: 0, 1, 2, ...; rising ones; permutations that undo each other.
(relation identity (Axes))
(relation increasing (Axes))
(relation inverse (Axes Axes))
; (expands u s d): s is u with axes of size 1 put in; axis k of u is axis d[k] of s.
(relation expands (Shape Shape Axes))
; (must_eq i why p q): op i fails unless p = q. must_le: p <= q. must_divide: k divides p.
(relation must_eq (i64 String Dim Dim))
(relation must_le (i64 String Dim Dim))
(relation must_divide (i64 String i64 Dim))
; must_multiple: p = k*q. must_expand: p is q or 1. must_product: as many elements.
(relation must_multiple (i64 String Dim i64 Dim))
(relation must_expand (i64 String Dim Dim))
(relation must_product (i64 String Shape Shape))
; Shapes axis by axis: the sum, the difference, and starts clamped so that a window fits.
(constructor AddShapes (Shape Shape) Shape)
(constructor SubShapes (Shape Shape) Shape)
(constructor ClampStarts (Axes Shape Shape Shape) Shape)
; How many more times a growing rule may fire on this tensor: of two ways to it, the one with more left.
(function fuel (T) i64 :merge (max old new))
; b = broadcast_in_dim(x, d, shape(b)), reshape(x, shape(b)), transpose(x, p), for an x of shape u: one such x.
(function unbroadcast (T Axes Shape) T :merge old)
(function unreshape (T Shape) T :merge old)
(function untranspose (T Axes) T :merge old)
; The x of which b is a slice, the one that was found last.
(function unslice (T) T :merge new)
; Of an op f: the dtype of its result; (is_convert f d); (keeps f d): the conversion f keeps every value of dtype d;
; f(f(x)) = x; f(f(x)) = f(x) for x of dtype d; f(x, x) = x; f of integers of dtype d is a sum, difference, product or
; negation modulo a power of two.
(relation result_dtype (String String String))
(relation is_convert (String String))
(relation keeps (String String))
(relation involution (String))
(relation idempotent (String String))
(relation selects (String))
(relation wraps (String String))
; (unit_moves u p): permuting a shape u by p moves some axes, all of size 1, so that the elements stay in order.
(relation unit_moves (Shape Axes))
; (apart s c d t u): on each axis where s is not 1, c is 0, d is u, and t is 1.
(relation apart (Shape Shape Shape Shape Shape))
; (nothing s d n): shape s has no element, and n is some scalar of dtype d.
(relation nothing (Shape String T))
; A constant of i1 that is true, or false, everywhere.
(relation is_true (T))
(relation is_false (T))
; The number of elements of a shape.
(constructor Count (Shape) Dim)
; Tables that Python fills.
(relation in_neutral (String i64))
(relation in_neutral_right (String i64))
(relation in_absorbing (String i64))
(relation in_negating (String i64))
(relation in_truth (i64 i64))
(relation in_dims_of (i64 i64 i64 String))
(relation fold_op (i64 i64))
(relation fold_unary (String i64 i64))
(relation fold_binary (String i64 i64 i64))
(relation fold_ternary (String i64 i64 i64 i64))
(relation fold_reshape (i64 i64 i64))
(relation fold_transpose (i64 i64 i64))
(relation fold_broadcast_in_dim (i64 i64 i64 i64))
(relation fold_slice (i64 i64 i64 i64 i64))
(relation fold_concatenate (i64 i64 i64 i64))
; Constant c is the splat of node n, to shape s; f of splats of constants a, b, ... is the splat of node n.
(relation in_splat (i64 i64 i64))
(relation splat_unary (String i64 i64))
(relation splat_binary (String i64 i64 i64))
(relation splat_ternary (String i64 i64 i64 i64))
(relation name_add (i64 i64 i64))
(relation name_sub (i64 i64 i64))
(relation name_clamp (i64 i64 i64 i64 i64))
(relation in_fuel (i64 i64))
(relation in_unit (i64 i64 i64))
(relation in_permutation (i64 i64 i64))
(relation in_expands (i64 i64 i64))
(relation in_unit_moves (i64 i64))
(relation in_apart (i64 i64 i64 i64 i64))
(relation in_nothing (i64 String i64))
(relation in_count (i64 i64))
(relation in_at_most (i64 i64))
; p <= q is known.
(relation at_most (Dim Dim))
; The shape of r zeros, and of r ones.
(constructor Zeros (i64) Shape)
(constructor Ones (i64) Shape)
"""

SOURCES = """
; What was moved to give a tensor, as a function: rules that look through a move see one source, so that the matches of
; a class that holds moves of itself (a constant of one element, unit axes) do not multiply.
(ruleset prelude.tensor)
(rule ((= b (broadcast_in_dim x d s)) (!= b x) (= u (ShapeOf x))) ((set (unbroadcast b d u) x))
  :ruleset prelude.tensor :name "prelude.tensor/unbroadcast")
(rule ((= b (reshape x s)) (!= b x) (= u (ShapeOf x))) ((set (unreshape b u) x))
  :ruleset prelude.tensor :name "prelude.tensor/unreshape")
(rule ((= b (transpose x p)) (!= b x)) ((set (untranspose b p) x))
  :ruleset prelude.tensor :name "prelude.tensor/untranspose")
(rule ((= b (slice x s l t)) (!= b x)) ((set (unslice b) x))
  :ruleset prelude.tensor :name "prelude.tensor/unslice")
(rule ((splat_unary f a n) (= (constant a) (unbroadcast x (vec-empty) o)) (= e (Unary f x)) (= s (ShapeOf e)))
      ((union e (broadcast_in_dim (Node n) (vec-empty) s)))
  :ruleset prelude.tensor :name "prelude.tensor/splat-unary")
(rule ((splat_binary f a b n) (= (constant a) (unbroadcast x (vec-empty) o))
       (= (constant b) (unbroadcast y (vec-empty) o))
       (= e (Binary f x y)) (= s (ShapeOf e)))
      ((union e (broadcast_in_dim (Node n) (vec-empty) s)))
  :ruleset prelude.tensor :name "prelude.tensor/splat-binary")
(rule ((splat_ternary f a b c n) (= (constant a) (unbroadcast x (vec-empty) o))
       (= (constant b) (unbroadcast y (vec-empty) o))
       (= (constant c) (unbroadcast z (vec-empty) o)) (= e (Ternary f x y z)) (= s (ShapeOf e)))
      ((union e (broadcast_in_dim (Node n) (vec-empty) s)))
  :ruleset prelude.tensor :name "prelude.tensor/splat-ternary")
"""


@dataclass(frozen=True, slots=True)
class Constructor:
    """The constructor of one op: its name and the sorts of its arguments (operands first)."""

    decl: OpDecl
    operands: tuple[str, ...]
    attrs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The op's name is the constructor's."""
        return self.decl.name


def has_constructor(decl: OpDecl) -> bool:
    """True for ops with a constructor of their own: not elementwise, no regions, no effect, results one tensor."""
    return decl.family not in ELEMENTWISE and not decl.regions and not decl.effect and not decl.traits.foreign


def constructor(decl: OpDecl) -> Constructor:
    """The constructor of an op for which ``has_constructor`` holds."""
    operands = tuple("Ts" if name.startswith("*") else "T" for name in decl.operands)
    return Constructor(decl, operands, tuple(_SORT[attr.kind] for attr in decl.attrs))


_DECLARED = re.compile(r"\((?:sort|constructor|function|relation|datatype) (\w+)")


def reserved_names() -> frozenset[str]:
    """Names of the language itself, which no op can have: those of this prelude and of the input tables."""
    return frozenset(_DECLARED.findall(CORE))


def declarations(decls: Iterable[OpDecl]) -> str:
    """Sorts, constructors and input tables of the tensor half; needs the shape prelude.

    Raises EgshapeError (code "op-declaration") for a user's op with the name of something else in the language."""
    decls = list(decls)
    for taken in sorted(reserved_names() & {decl.name for decl in decls if decl.custom}):
        raise EgshapeError(
            "the e-graph has something else of this name",
            where=f"custom op {taken!r}",
            hint="give the op another name",
            code="op-declaration",
        )
    lines = [CORE.strip()]
    for rank in range(MAX_RANK + 1):
        columns = " ".join(["i64"] * (rank + 1))
        lines += [f"(relation in_shape{rank} ({columns}))", f"(relation in_axes{rank} ({columns}))"]
    for decl in decls:
        if has_constructor(decl):
            form = constructor(decl)
            sorts = (*form.operands, *form.attrs)
            columns = " ".join(["i64", *("String" if sort == "String" else "i64" for sort in sorts)])
            lines += [f"(constructor {form.name} ({' '.join(sorts)}) T)", f"(relation in_{form.name} ({columns}))"]
    return "\n".join([*lines, SOURCES.strip()])


def load_rules(decls: Iterable[OpDecl]) -> list[str]:
    """The ruleset ``prelude.load``, which turns the rows of the input tables into terms."""
    lines = ["(ruleset prelude.load)"]
    for rank in range(MAX_RANK + 1):
        lines += _vector_tables(rank)
    lines.append(_LOAD_CORE.strip())
    lines += [_own(constructor(decl)) for decl in decls if has_constructor(decl)]
    return lines


def _vector_tables(rank: int) -> list[str]:
    names = [f"x{k}" for k in range(rank)]
    args = " ".join(names)
    dims = " ".join(f"(P {name})" for name in names)
    empty_dims, empty_axes = ("(vec-empty)",) * 2
    return [
        f"(rule ((in_shape{rank} i {args})) ((union (Shp i) (Sh {f'(vec-of {dims})' if rank else empty_dims})))"
        f' :ruleset prelude.load :name "load/shape{rank}")',
        f"(rule ((in_axes{rank} i {args})) ((set (axes_of i) {f'(vec-of {args})' if rank else empty_axes}))"
        f' :ruleset prelude.load :name "load/axes{rank}")',
    ]


_LOAD_CORE = """
(rule ((in_nil l)) ((union (List l) (Nil)))
  :ruleset prelude.load :name "load/nil")
(rule ((in_list l h t)) ((union (List l) (Cons (Node h) (List t))))
  :ruleset prelude.load :name "load/list")
(rule ((in_type i d s))
  ((set (dtype_of (Node i)) d) (union (ShapeOf (Node i)) (Shp s)) (set (nm (Node i)) i))
  :ruleset prelude.load :name "load/type")
(rule ((in_untyped i)) ((set (nm (Node i)) i))
  :ruleset prelude.load :name "load/untyped")
(rule ((in_derived i d s)) ((set (dtype_of (Node i)) d) (union (ShapeOf (Node i)) (Shp s)))
  :ruleset prelude.load :name "load/derived")
(rule ((in_unary i f a) (live i)) ((union (Node i) (Unary f (Node a))))
  :ruleset prelude.load :name "load/unary")
(rule ((in_binary i f a b) (live i)) ((union (Node i) (Binary f (Node a) (Node b))))
  :ruleset prelude.load :name "load/binary")
(rule ((in_ternary i f a b c) (live i)) ((union (Node i) (Ternary f (Node a) (Node b) (Node c))))
  :ruleset prelude.load :name "load/ternary")
(rule ((in_call i k l s) (live i)) ((union (Node i) (Call k (List l) (Shp s))))
  :ruleset prelude.load :name "load/call")
(rule ((in_proj i c k) (live i)) ((union (Node i) (Proj (Node c) k)))
  :ruleset prelude.load :name "load/proj")
(rule ((in_neutral f c)) ((neutral f (constant c)))
  :ruleset prelude.load :name "load/neutral")
(rule ((in_neutral_right f c)) ((neutral_right f (constant c)))
  :ruleset prelude.load :name "load/neutral-right")
(rule ((in_absorbing f c)) ((absorbing f (constant c)))
  :ruleset prelude.load :name "load/absorbing")
(rule ((in_negating f c)) ((negating f (constant c)))
  :ruleset prelude.load :name "load/negating")
(rule ((in_truth c 1)) ((is_true (constant c)))
  :ruleset prelude.load :name "load/true")
(rule ((in_truth c 0)) ((is_false (constant c)))
  :ruleset prelude.load :name "load/false")
(rule ((in_fuel i n)) ((set (fuel (Node i)) n))
  :ruleset prelude.load :name "load/fuel")
(rule ((in_unit r z o)) ((union (Zeros r) (Shp z)) (union (Ones r) (Shp o)))
  :ruleset prelude.load :name "load/unit")
(rule ((in_permutation p q 0) (= a (axes_of p)) (= b (axes_of q))) ((inverse a b))
  :ruleset prelude.load :name "load/permutation")
(rule ((in_permutation p q 1) (= a (axes_of p))) ((identity a) (inverse a a))
  :ruleset prelude.load :name "load/identity")
(rule ((in_permutation p q 2) (= a (axes_of p))) ((increasing a))
  :ruleset prelude.load :name "load/increasing")
(rule ((in_expands u s d) (= a (axes_of d))) ((expands (Shp u) (Shp s) a))
  :ruleset prelude.load :name "load/expands")
(rule ((in_unit_moves u p) (= a (axes_of p))) ((unit_moves (Shp u) a))
  :ruleset prelude.load :name "load/unit-moves")
(rule ((in_apart s c d t u)) ((apart (Shp s) (Shp c) (Shp d) (Shp t) (Shp u)))
  :ruleset prelude.load :name "load/apart")
(rule ((in_nothing s d n)) ((nothing (Shp s) d (Node n)))
  :ruleset prelude.load :name "load/nothing")
(rule ((in_count s p)) ((union (Count (Shp s)) (P p)))
  :ruleset prelude.load :name "load/count")
(rule ((in_at_most p q)) ((at_most (P p) (P q)))
  :ruleset prelude.load :name "load/at-most")
(rule ((fold_op i c) (live i)) ((union (Node i) (constant c)))
  :ruleset prelude.load :name "fold/op")
(rule ((fold_unary f a b)) ((union (Unary f (constant a)) (constant b)))
  :ruleset prelude.load :name "fold/unary")
(rule ((fold_binary f a b c)) ((union (Binary f (constant a) (constant b)) (constant c)))
  :ruleset prelude.load :name "fold/binary")
(rule ((fold_ternary f a b c d)) ((union (Ternary f (constant a) (constant b) (constant c)) (constant d)))
  :ruleset prelude.load :name "fold/ternary")
(rule ((fold_reshape a s c)) ((union (reshape (constant a) (Shp s)) (constant c)))
  :ruleset prelude.load :name "fold/reshape")
(rule ((fold_transpose a p c) (= v (axes_of p))) ((union (transpose (constant a) v) (constant c)))
  :ruleset prelude.load :name "fold/transpose")
(rule ((fold_broadcast_in_dim a d s c) (= v (axes_of d)))
      ((union (broadcast_in_dim (constant a) v (Shp s)) (constant c)))
  :ruleset prelude.load :name "fold/broadcast")
(rule ((fold_slice a s l t c)) ((union (slice (constant a) (Shp s) (Shp l) (Shp t)) (constant c)))
  :ruleset prelude.load :name "fold/slice")
(rule ((fold_concatenate a b k c)) ((union (concatenate (Cons (constant a) (Cons (constant b) (Nil))) k) (constant c)))
  :ruleset prelude.load :name "fold/concatenate")
(rule ((in_splat c n s)) ((union (constant c) (broadcast_in_dim (Node n) (vec-empty) (Shp s))))
  :ruleset prelude.load :name "fold/splat")
(rule ((name_add a b c)) ((union (AddShapes (Shp a) (Shp b)) (Shp c)))
  :ruleset prelude.load :name "load/name-add")
(rule ((name_sub a b c)) ((union (SubShapes (Shp a) (Shp b)) (Shp c)))
  :ruleset prelude.load :name "load/name-sub")
(rule ((name_clamp m e u z c) (= a (axes_of m))) ((union (ClampStarts a (Shp e) (Shp u) (Shp z)) (Shp c)))
  :ruleset prelude.load :name "load/name-clamp")
(rule ((in_dims_of i s a d) (live i) (= v (axes_of a))) ((union (Node i) (dims (Shp s) v d)))
  :ruleset prelude.load :name "load/elements")
(rule ((in_equal i j) (live i)) ((union (Node i) (Node j)))
  :ruleset prelude.load :name "load/equal")
"""


def _own(form: Constructor) -> str:
    """The load rule of one op's constructor."""
    terms, guards, names = [], [], ["i"]
    for position, sort in enumerate((*form.operands, *form.attrs)):
        name = f"a{position}"
        names.append(name)
        if sort == "T":
            terms.append(f"(Node {name})")
        elif sort == "Ts":
            terms.append(f"(List {name})")
        elif sort == "Shape":
            terms.append(f"(Shp {name})")
        elif sort == "Axes":
            guards.append(f"(= v{position} (axes_of {name}))")
            terms.append(f"v{position}")
        else:
            terms.append(name)
    return (
        f"(rule ((in_{form.name} {' '.join(names)}) (live i) {' '.join(guards)}) "
        f'((union (Node i) ({form.name} {" ".join(terms)}))) :ruleset prelude.load :name "load/{form.name}")'
    )
