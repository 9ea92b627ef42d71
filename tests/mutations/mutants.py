"""Mutants of a source file: copies of it with one small fault each, made from its syntax tree.

A mutant replaces the text of one expression or statement, so that all other text, with its
comments, stays. Annotations, decorators, strings and the arguments of `raise` are not mutated.

The identity of a mutant is FILE::FUNCTION::OPERATOR#N, the N-th place at which the operator applies
in the function, as in `jsketch/search.py::ascend::boundary#1`. It does not depend on lines or
formatting. Statements outside of functions belong to their class, or to `module`.
"""

import ast
import copy
import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
LOGIC = {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And}
# functions and methods that take the same arguments
EXCHANGED = {
    "all": "any",
    "any": "all",
    "argmax": "argmin",
    "argmin": "argmax",
    "ceil": "floor",
    "cos": "sin",
    "floor": "ceil",
    "max": "min",
    "maximum": "minimum",
    "min": "max",
    "minimum": "maximum",
    "ones": "zeros",
    "ones_like": "zeros_like",
    "sin": "cos",
    "sum": "max",
    "tril": "triu",
    "triu": "tril",
    "zeros": "ones",
    "zeros_like": "ones_like",
}
# functions whose call is replaced by its first argument
UNWRAPPED = {"abs", "clip", "cumsum", "exp", "expm1", "flip", "fold_in", "log", "log1p"}
UNWRAPPED |= {"maximum", "minimum", "sort", "sqrt", "square", "stop_gradient", "tril", "triu"}
MODULES = {"jax", "jnp", "lax", "math", "np", "random"}
INDEXED_UPDATES = {"add", "divide", "max", "min", "multiply", "set"}


@dataclass(frozen=True)
class Mutant:
    """One fault in one file."""

    file: str  # relative to the root of the repository
    function: str  # or a class, or "module"
    in_function: bool
    operator: str
    number: int
    line: int
    before: str  # the expression or statement, on one line
    after: str
    span: tuple[int, int]  # the bytes of the source that are replaced
    piece: str  # what replaces them

    @property
    def identity(self):
        return f"{self.file}::{self.function}::{self.operator}#{self.number}"

    @property
    def place(self):
        """The key under which `instrumented` reports calls of the function."""
        return f"{self.file}::{self.function}"

    def __str__(self):
        return f"{self.identity} (line {self.line}): {self.before} -> {self.after}"

    def apply(self, source):
        """The mutated source."""
        start, end = self.span
        text = source.encode()
        return (text[:start] + self.piece.encode() + text[end:]).decode()


def mutants(file, source):
    """All mutants of a file, in the order of its text."""
    made, counts, seen = [], Counter(), set()
    starts = list(accumulate(map(len, source.encode().splitlines(keepends=True)), initial=0))
    tree = ast.parse(source)
    functions = {name for name, _ in _functions(tree)}
    for function, node, is_condition in _places(tree):
        for operator, new in _faults(node, is_condition):
            counts[function, operator] += 1
            after = ast.unparse(new)
            needs_none = ast.Constant | ast.Name | ast.Call | ast.Attribute | ast.stmt
            piece = after if isinstance(new, needs_none) else f"({after})"
            start = starts[node.lineno - 1] + node.col_offset
            span = (start, starts[node.end_lineno - 1] + node.end_col_offset)
            if (span, piece) in seen:
                continue
            seen.add((span, piece))
            number, before = counts[function, operator], ast.unparse(node)
            place = (file, function, function in functions, operator, number, node.lineno)
            made.append(Mutant(*place, before, after, span, piece))
    return made


def sample(found, count, seed):
    """`count` of the mutants, or all of them if there are fewer. Each mutant has a random rank that
    depends on its identity and the seed alone, so that a change elsewhere changes few choices."""

    def rank(mutant):
        return hashlib.sha256(f"{seed} {mutant.identity}".encode()).digest()

    chosen = set(sorted(found, key=rank)[:count])
    return [mutant for mutant in found if mutant in chosen]


def instrumented(file, source):
    """The source, in which every function first adds its place to `mutation_hits`."""
    lines = source.splitlines(keepends=True)
    insertions = []
    for function, node in _functions(ast.parse(source)):
        first = node.body[0]
        if _is_docstring(first):
            if len(node.body) == 1:
                continue
            first = node.body[1]
        line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
        indent = lines[line - 1][: first.col_offset]
        if not indent.strip():
            hit = f'{indent}__import__("mutation_hits").add("{file}::{function}")\n'
            insertions.append((line - 1, hit))
    for line, hit in sorted(insertions, reverse=True):
        lines.insert(line, hit)
    return "".join(lines)


def _faults(node, is_condition):
    """(operator, the node that replaces `node`) of each fault that the node can have."""
    # other faults negate a comparison or a negated condition
    if is_condition and not isinstance(node, ast.Compare | ast.UnaryOp):
        yield "condition", ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.Compare(ops=[op]):
            for operator, table in (("boundary", BOUNDARY), ("opposite", OPPOSITE)):
                if type(op) in table:
                    yield operator, _with(node, ops=[table[type(op)]()])
        case ast.BinOp(left=left, op=op) if type(op) in ARITHMETIC or type(op) in LOGIC:
            arithmetic = type(op) in ARITHMETIC
            exchanged = (ARITHMETIC if arithmetic else LOGIC)[type(op)]()
            yield "arithmetic" if arithmetic else "logic", _with(node, op=exchanged)
            yield "left_operand", left
        case ast.BoolOp(op=op):
            yield "logic", _with(node, op=LOGIC[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield "sign", operand
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield "constant", ast.Constant(2 * value or 1.0)
        case ast.Attribute(value=value, attr="T", ctx=ast.Load()):
            yield "transpose", value
        case ast.Call():
            yield from _call_faults(node)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "statement", ast.Pass()


def _call_faults(node):
    function, arguments = node.func, node.args
    name = getattr(function, "attr", getattr(function, "id", ""))
    match function:
        case ast.Attribute(value=ast.Subscript(value=ast.Attribute(value=array, attr="at"))):
            if name in INDEXED_UPDATES:
                yield "update", array
                return
    if name in EXCHANGED:
        new = EXCHANGED[name]
        renamed = (
            _with(function, attr=new) if isinstance(function, ast.Attribute) else ast.Name(new)
        )
        yield "exchange", _with(node, func=renamed)
    if any(isinstance(argument, ast.Starred) for argument in arguments):
        return
    if name == "where" and len(arguments) == 3:
        yield "where", arguments[1]
        yield "where", arguments[2]
    if name == "cond" and len(arguments) >= 3:
        yield "branches", _with(node, args=[arguments[i] for i in (0, 2, 1)] + arguments[3:])
    if name in UNWRAPPED and arguments and _root(function) in MODULES:
        yield "unwrap", arguments[0]


def _with(node, **fields):
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _root(function):
    """The first name of a dotted name; "" for a method of another expression."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return getattr(function, "id", "")


def _is_docstring(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _scopes(node, scope=()):
    """(names of the classes and functions around it, node) of every node that may be mutated."""
    yield scope, node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope = (*scope, node.name)
    for name, value in ast.iter_fields(node):
        skipped = name in ("annotation", "returns", "decorator_list")
        if skipped or isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _scopes(child, scope)


def _places(tree):
    """(function, node, whether the node is the condition of an `if`) of every node."""
    conditions = {id(n.test) for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp)}
    for scope, node in _scopes(tree):
        yield ".".join(scope) or "module", node, id(node) in conditions


def _functions(tree):
    for scope, node in _scopes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join((*scope, node.name)), node
