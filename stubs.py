"""Writes a .pyi beside every .pyx: what Python sees of a compiled module, for type checkers and editors.

An annotation wins over a C type. Where the C type of an attribute does not say enough, a comment does:
`cdef readonly list rows  # type: list[Row]`. A name is one that the source imports, or that typing, collections.abc, a
module beside it or a single one of the package defines.
"""

import ast
import builtins
import collections.abc
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from Cython.CodeWriter import ExpressionWriter
from Cython.Compiler import ExprNodes, Nodes
from Cython.Compiler.TreeFragment import parse_from_strings

PYTHON_TYPES = {
    "bint": "bool",
    "double": "float",
    "list": "list[Any]",
    "dict": "dict[Any, Any]",
    "set": "set[Any]",
    "frozenset": "frozenset[Any]",
    "tuple": "tuple[Any, ...]",
    **dict.fromkeys(("int", "long", "char", "size_t", "Py_ssize_t", "Py_hash_t"), "int"),
    **{f"{sign}int{bits}_t": "int" for sign in ("u", "") for bits in (8, 16, 32, 64)},
}
TYPE_COMMENT = re.compile(r"# type: (.+?)(?:  #|$)")
DEFINED = re.compile(r"^(?:cdef )?class (\w+)|^([A-Z]\w+) = ", re.MULTILINE)
MODULE = re.compile(r"\b(?:leveret\.[a-z_.]+|typing_extensions)(?=\.[A-Z])")


class Untyped(Exception):
    """The source does not say what a function returns, or where a name is from."""


class Stub:
    """The stub of one module, from its .pxd and its .pyx."""

    def __init__(self, source: Path, module: str, defined: dict[str, set[str]]) -> None:
        self.module, self.defined = module, defined
        self.imported: dict[str, tuple[str, str]] = {}  # name -> module and name there
        self.classes: dict[str, str] = {}  # name -> the line that begins it
        self.members: dict[str, dict[str, str]] = {"": {}}  # class -> name -> its lines
        for path, level in ((source.with_suffix(".pxd"), "module_pxd"), (source, None)):
            if path.exists():
                self.lines = path.read_text().split("\n")
                for node in statements(parse_from_strings(module, path.read_text(), level=level).body):
                    self.add(node)

    def add(self, node: Any, owner: str = "") -> None:
        """Note what a statement of the module, or of a class, defines."""
        members = self.members[owner]
        match type(node).__name__:
            case "FromCImportStatNode":
                self.imported |= {alias or name: (node.module_name, name) for _, name, alias in node.imported_names}
            case "FromImportStatNode":
                self.imported |= {target.name: (node.module.module_name.value, name) for name, target in node.items}
            case "CClassDefNode" | "PyClassDefNode":
                self.add_class(node)
            case "CEnumDefNode" if node.create_wrapper and node.name:
                self.classes[node.name] = f"class {node.name}(IntEnum):"
                self.members[node.name] = {item.name: f"{item.name} = ..." for item in node.items}
            case "CEnumDefNode" if node.create_wrapper:
                members |= {item.name: f"{item.name}: int" for item in node.items}
            case "CVarDefNode" if node.visibility in ("readonly", "public"):
                kind = self.comment(node) or python_type(node.base_type)
                form = "{}: {}" if node.visibility == "public" else "@property\ndef {}(self) -> {}: ..."
                members |= {each.name: form.format(each.name, kind) for each in node.declarators}
            case "SingleAssignmentNode" if node.lhs.is_name and type(node.rhs) is not ExprNodes.ImportNode:
                members[node.lhs.name] = self.assignment(node, owner)
            case "ExprStatNode" if getattr(node.expr, "annotation", None):
                members[node.expr.name] = f"{node.expr.name}: {annotation(node.expr)}"
            case "DefNode" if node.name not in ("__dealloc__", "__getattr__", "__repr__"):
                members[node.name] = self.function(
                    node, node.name, node.args, annotation(node, "return_type_annotation"), owner
                )
            case "CFuncDefNode" if node.overridable:
                kind = python_type(node.base_type)
                function = node.declarator
                members[function.base.name] = self.function(
                    node, function.base.name, function.args, "" if kind == "object" else kind, owner
                )

    def add_class(self, node: Any) -> None:
        name = getattr(node, "class_name", None) or node.name
        bases = ", ".join(source_of(base) for base in node.bases.args) if node.bases else ""
        marks = {"cython.dataclasses.dataclass": "@dataclass\n", "cython.final": "@final\n"}
        head = "".join(marks.get(each, "") for each in decorators(node))
        if name not in self.classes or head or bases:
            self.classes[name] = head + (f"class {name}({bases}):" if bases else f"class {name}:")
        self.members.setdefault(name, {})
        for each in statements(node.body):
            self.add(each, name)

    def comment(self, node: Any) -> str:
        found = TYPE_COMMENT.search(self.lines[node.pos[1] - 1])
        return found[1] if found else ""

    def assignment(self, node: Any, owner: str) -> str:
        """A constant, a field of a dataclass, a member of an enumeration, or the name of a type."""
        name = node.lhs.name
        if kind := annotation(node.lhs) or self.comment(node):
            return f"{name}: {kind} = ..." if owner else f"{name}: {kind}"
        if "Enum" in self.classes.get(owner, ""):
            return f"{name} = ..."
        if not owner and name[0].isupper() and not name.isupper():
            return f"{name} = {source_of(node.rhs)}"
        kinds = {ExprNodes.IntNode: "int", ExprNodes.UnicodeNode: "str", ExprNodes.BytesNode: "bytes"}
        return f"{name}: {kinds.get(type(node.rhs), 'object')}"

    def function(self, node: Any, name: str, args: list[Any], result: str, owner: str) -> str:
        """A function or method. `__cinit__` stands for `__new__`: it says what a call of the class takes."""
        above = [each for each in decorators(node) if each == "property" or each.endswith(".setter")]
        if name == "__cinit__":
            name, result = "__new__", "Self"
        words = ["cls" if name == "__new__" else "self"] if owner else []
        for arg in args[len(words) :]:
            if arg.kw_only and "*" not in words:
                words.append("*")
            words.append(parameter(arg))
        if owner and len(args) > 1 and name.startswith("__") and name not in ("__init__", "__new__"):
            words.append("/")
        for star, arg in (("*", getattr(node, "star_arg", None)), ("**", getattr(node, "starstar_arg", None))):
            words += [f"{star}{arg.name}: {annotation(arg) or 'object'}"] if arg else []
        if not result and gives(node.body) and not name.startswith("_"):
            raise Untyped(f"{self.module}, line {node.pos[1]}: say what {name} returns: `-> type`")
        word = "async def" if getattr(node, "is_async_def", False) else "def"
        return "\n".join(
            [*(f"@{each}" for each in above), f"{word} {name}({', '.join(words)}) -> {result or None}: ..."]
        )

    def __str__(self) -> str:
        blocks = list(self.members[""].values())
        for name, head in self.classes.items():
            blocks.append("\n    ".join([head, *"\n".join(self.members[name].values() or ["..."]).split("\n")]))
        body = "\n".join(blocks)
        return "\n".join([*sorted(self.imports(ast.parse(body))), body, ""])

    def imports(self, body: ast.Module) -> Iterator[str]:
        """What the text uses and neither it nor Python defines."""
        known = {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        package = self.module.rpartition(".")[0]
        known |= self.classes.keys() | vars(builtins).keys() | {"leveret", "typing_extensions"}
        yield from {f"import {match}" for match in MODULE.findall(ast.unparse(body))}
        for name in {node.id for node in ast.walk(body) if isinstance(node, ast.Name)} - known:
            places = self.defined.get(name, set()) - {self.module}
            places = {place for place in places if place.rpartition(".")[0] == package} or places
            if name in self.imported:
                yield "from {} import {} as {}".format(*self.imported[name], name)
            elif name in ("dataclass", "IntEnum"):
                yield f"from {'enum' if name == 'IntEnum' else 'dataclasses'} import {name}"
            elif name in collections.abc.__all__ or name in typing.__all__:
                yield f"from {'collections.abc' if name in collections.abc.__all__ else 'typing'} import {name}"
            elif len(places) == 1:
                yield f"from {min(places)} import {name}"
            else:
                raise Untyped(f"{self.module}: import {name}, which {len(places)} modules define")


def parameter(node: Any) -> str:
    """A parameter with its type and its default."""
    kind = annotation(node) or (python_type(node.base_type) if node.declarator.name else "object")
    if node.default is None:
        return f"{named(node)}: {kind}"
    default = source_of(node.default)
    if default == "None" and kind != "object" and "None" not in kind:
        kind += " | None"
    if default != "None" and not isinstance(node.default, ExprNodes.ConstNode):
        default = "..."
    return f"{named(node)}: {kind} = {default}"


def named(node: Any) -> str:
    """The name of a parameter: without a type it is parsed as a type without a name."""
    return str(node.declarator.name or node.base_type.name or "self")


def python_type(node: Any) -> str:
    """What Python sees of a C type."""
    match type(node).__name__:
        case "CSimpleBaseTypeNode":
            return str(PYTHON_TYPES.get(node.name, node.name or "object"))
        case "MemoryViewSliceTypeNode":
            return "typing_extensions.Buffer"
    return python_type(node.base_type)  # const


def annotation(node: Any, name: str = "annotation") -> str:
    """The text of an annotation; names that the source does not import are quoted."""
    found = getattr(node, name)
    return str(found.string.value).strip("'\"") if found else ""


def decorators(node: Any) -> list[str]:
    """Those of a function or a class."""
    return [source_of(each.decorator) for each in getattr(node, "decorators", None) or ()]


def source_of(node: Any) -> str:
    """An expression as it is written."""
    return str(ExpressionWriter().write(node))


def gives(node: Any) -> bool:
    """Whether a function with this body returns values, or yields them."""
    if isinstance(node, list):
        return any(map(gives, node))
    match type(node).__name__:
        case "ReturnStatNode":
            return node.value is not None
        case "YieldExprNode" | "YieldFromExprNode":
            return True
    return any(gives(getattr(node, name) or []) for name in node.child_attrs)


def statements(body: Any) -> Iterator[Any]:
    """The statements of a body, in their order."""
    if isinstance(body, Nodes.StatListNode):
        for each in body.stats:
            yield from statements(each)
    else:
        yield body


def write_stubs(root: Path) -> None:
    """Write the stubs of all compiled modules below a folder."""
    sources = {path: ".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.rglob("*.py*"))}
    defined: dict[str, set[str]] = {}
    for path, module in sources.items():
        if path.suffix in (".py", ".pyx") and ".pure." not in module:
            for match in DEFINED.finditer(path.read_text()):
                defined.setdefault(match[1] or match[2], set()).add(module)
    for path, module in sources.items():
        if path.suffix == ".pyx":
            path.with_suffix(".pyi").write_text(f"# Generated from {path.name}.\n{Stub(path, module, defined)}")
