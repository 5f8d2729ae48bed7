"""Programs and kernels as text, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egshape.plan.analysis.memory import Layout, touched
from egshape.plan.analysis.parallel import split
from egshape.plan.ir.launch import Launch, Wide
from egshape.plan.ir.loops import (
    Assign,
    Bind,
    Call,
    Choose,
    Const,
    Expr,
    If,
    Index,
    Kernel,
    Let,
    LetIndex,
    Load,
    Local,
    Loop,
    Matrix,
    Stmt,
    Store,
    Test,
    Var,
    While,
)
from egshape.plan.ir.program import (
    BindSize,
    Branch,
    CheckSizes,
    CheckValue,
    Copy,
    DefineSize,
    Extend,
    HostCall,
    Port,
    Program,
    Repeat,
    Run,
    Step,
    Swap,
)
from egshape.plan.ir.walk import buffers, statements


def kernel_text(kernel: Kernel) -> str:
    """A kernel as loops."""
    cut = split(kernel)
    head = [f"kernel {kernel.label}"]
    for buffer in buffers(kernel.body):
        role = "private" if buffer in kernel.private else "out" if buffer in kernel.outputs else "in"
        head.append(f"  {role} {buffer.kind} {buffer.name}: {buffer.dtype}[{buffer.size}]")
    head.append(f"  in pieces of {cut.units} units, work {cut.work} each" if cut is not None else "  in one piece")
    return "\n".join([*head, *_block(kernel.body, "  ")]) + "\n"


def launch_text(launch: Launch) -> str:
    """How a kernel runs on a device, and what its sizes bought or have to pass for that."""
    wide = sum(isinstance(stmt, Wide) for stmt in statements(launch.kernel.body))
    _, room = launch.places()
    lines = [
        f"{launch.blocks} blocks of {launch.threads} threads, {room} bytes of shared memory",
        f"indices of {32 if launch.narrow else 64} bits",
        f"{wide} accesses of up to 16 bytes" if wide else "an access for each element",
    ]
    if launch.why:
        lines.append(launch.why)
    if launch.otherwise is not None:
        tests = ", ".join(f"{dim} >= 0" for dim in launch.fits)
        lines.append(f"only where {tests}, which no fact shows: there is another version for where it does not hold")
    return "".join(f"// {line}\n" for line in lines)


def program_text(program: Program, layout: Layout) -> str:
    """A host program: inputs, the arena, and the steps in order."""
    lines = [f"program {program.name}"]
    for kind, ports in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"  {kind} {_port(port)}" for port in ports]
    lines += [f"  constant {buffer.name}: {buffer.dtype}[{buffer.size}]" for buffer in program.constants]
    lines += [f"  slot {k}: {size} bytes" for k, size in enumerate(layout.slots)]
    lines += [f"  buffer {buffer.name}: slot {k}" for buffer, k in layout.slot.items()]
    lines += [f"  buffer {buffer.name}: allocated when its size is known" for buffer in layout.late]
    return "\n".join([*lines, *_steps(program.steps, "  ")]) + "\n"


def _port(port: Port) -> str:
    return f"{port.name}: {port.buffer.dtype}[{', '.join(map(str, port.shape))}]"


def _steps(steps: Sequence[Step], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case CheckSizes():
                yield f"{indent}check {step.lhs} {step.relation} {step.rhs}: {step.message}"
            case CheckValue():
                yield f"{indent}check {step.value.name}: {step.message}"
            case BindSize():
                yield f"{indent}size {step.name} = {step.buffer.name}[{step.element}] + {step.offset}"
            case DefineSize():
                yield f"{indent}size {step.name} = {step.value}"
            case Run():
                yield f"{indent}run {step.kernel.label}: {', '.join(each.name for each in touched(step))}"
            case Copy():
                yield f"{indent}copy {step.source.name} to {step.target.name}"
            case Swap():
                yield f"{indent}swap {step.one.name} and {step.two.name}"
            case Extend():
                yield f"{indent}extend {step.buffer.name} to {step.size}"
            case HostCall():
                yield f"{indent}call {step.target}: {', '.join(each.name for each in touched(step))}"
            case Branch():
                yield f"{indent}branch on {step.index.name}"
                for part in step.branches:
                    yield f"{indent}  arm"
                    yield from _steps(part, indent + "    ")
            case Repeat():
                yield f"{indent}while {step.condition.name}"
                yield from _steps(step.test, indent + "  ")
                yield f"{indent}do"
                yield from _steps(step.body, indent + "  ")


def _block(body: Sequence[Stmt], indent: str) -> Iterator[str]:
    for stmt in body:
        match stmt:
            case Loop():
                yield f"{indent}for {stmt.var} < {stmt.extent}"
                yield from _block(stmt.body, indent + "  ")
            case While():
                yield f"{indent}while {_expr(stmt.condition)}"
                yield from _block(stmt.body, indent + "  ")
            case If():
                yield f"{indent}if {_expr(stmt.condition)}"
                yield from _block(stmt.then, indent + "  ")
                if stmt.other:
                    yield f"{indent}else"
                    yield from _block(stmt.other, indent + "  ")
            case Store():
                yield f"{indent}{stmt.buffer.name}[{stmt.index}] = {_expr(stmt.value)}"
            case Let() | LetIndex():
                yield f"{indent}let {stmt.name} = {_expr(stmt.value)}"
            case Local():
                yield f"{indent}var {stmt.name} = {_expr(stmt.value)}"
            case Assign():
                yield f"{indent}{stmt.name} = {_expr(stmt.value)}"
            case _:
                inner = getattr(stmt, "body", ())
                fields = (name for name in type(stmt).__slots__ if name != "body")
                shown = ", ".join(f"{name}={_field(getattr(stmt, name))}" for name in fields)
                yield f"{indent}{type(stmt).__name__.lower()} {shown}"
                yield from _block(inner, indent + "  ")


def _field(value: object) -> str:
    if isinstance(value, Matrix):
        return f"{value.buffer.name}[{value.offset} + i*{value.row} + j*{value.column}]"
    return str(getattr(value, "name", value))


def _expr(expr: Expr) -> str:
    match expr:
        case Const():
            return str(expr.value)
        case Load():
            return f"{expr.buffer.name}[{expr.index}]"
        case Index():
            return f"{expr.dtype}({expr.dim})"
        case Test():
            return " and ".join(f"{dim} >= 0" for dim in expr.dims) or "true"
        case Var():
            return expr.name
        case Call():
            return f"{expr.op}({', '.join(map(_expr, expr.args))})"
        case Choose():
            return f"({_expr(expr.then)} if {_expr(expr.condition)} else {_expr(expr.other)})"
        case Bind():
            return f"(let {expr.name} = clamp({_expr(expr.value)}, 0, {expr.upper}) in {_expr(expr.body)})"
    return repr(expr)
