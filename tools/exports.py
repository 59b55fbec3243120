"""The rule of public names: what a package exports is listed, exists and is documented.

It reads syntax only and imports nothing, so a package with a missing driver is checked all the same. It looks at
packages (`__init__.py`); a module inside a package needs no `__all__`. A package may pass on more than it lists with
`from ramify.room import *`: that needs docstrings, and no place in `__all__`. That `__all__` is sorted is ruff's own
rule, RUF022.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.tree import Finding, modules, name_of, parse

_HOPS = 6


@dataclass(frozen=True)
class _Binding:
    """Where a name of a module comes from: a statement of its own, or another module, `starred` by way of `*`."""

    node: ast.stmt
    module: str | None = None
    name: str | None = None
    starred: bool = False


def public_exports(root: Path) -> Iterator[Finding]:
    """Each package's `__all__` names what the package itself makes public, and all that it exports has a docstring."""
    for path in modules(root, "src"):
        if path.name == "__init__.py":
            for line, text in _check(root, path):
                yield Finding(name_of(root, path), line, text)


def definitions(root: Path, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    """The public classes and functions that a module binds, where they are defined, with the bases of classes."""
    package = _package(root, path)
    for name, binding in _bindings(root, parse(path), package):
        if not name.startswith("_") and (binding.module is None or binding.module.split(".")[0] == "ramify"):
            yield from _defined(root, package if path.name == "__init__.py" else f"{package}.{path.stem}", name, _HOPS)


def _check(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    tree = parse(path)
    package = _package(root, path)
    bound = dict(_bindings(root, tree, package))
    starred = {name for name, binding in bound.items() if binding.starred}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    public = {name for name in bound if not name.startswith("_") and _is_public(bound[name], name in used)} - starred
    statement = _all_statement(tree)
    if statement is None:
        if public:
            yield 1, f"no __all__, yet it binds {', '.join(sorted(public))}"
        return
    listed = _listed(statement)
    if listed is None:
        yield statement.lineno, "__all__ is not a plain list of strings"
        return
    for name in sorted(public - set(listed)):
        yield bound[name].node.lineno, f"{name} is public but not in __all__ (export it or begin it with _)"
    for name in listed:
        if name not in bound and _module_file(root, f"{package}.{name}") is None:
            yield statement.lineno, f"__all__ names {name}, which does not exist"
        elif name not in starred and not name.startswith("_") and not _documented(root, package, name, _HOPS):
            yield statement.lineno, f"{name} is exported without a docstring"
    for name in sorted(starred):
        if not _documented(root, package, name, _HOPS):
            yield bound[name].node.lineno, f"{name} is exported without a docstring"
    if len(set(listed)) != len(listed):
        yield statement.lineno, "__all__ names something twice"


def _bindings(root: Path, tree: ast.Module, package: str) -> Iterator[tuple[str, _Binding]]:
    for node in _statements(tree.body):
        match node:
            case ast.ImportFrom(module=module, names=[ast.alias(name="*")], level=level):
                source = _absolute(package, module, level)
                for name in _starred(root, source):
                    yield name, _Binding(node, source, name, starred=True)
            case ast.ImportFrom(module=module, names=names, level=level):
                source = _absolute(package, module, level)
                for alias in names:
                    yield alias.asname or alias.name, _Binding(node, source, alias.name)
            case ast.Import(names=names):
                for alias in names:
                    yield alias.asname or alias.name.split(".")[0], _Binding(node, alias.name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, _Binding(node)
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, _Binding(node)
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, _Binding(node)


def _starred(root: Path, module: str) -> Iterator[str]:
    """The public names that `from module import *` brings, if it is a module of ours without `__all__`."""
    path = _module_file(root, module)
    if path is not None:
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for name, binding in _bindings(root, parse(path), package):
            if not name.startswith("_") and _is_public(binding, used=False):
                yield name


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        match node:
            case ast.If():
                yield from _statements(node.body)
                yield from _statements(node.orelse)
            case ast.Try():
                yield from _statements(node.body)
            case _:
                yield node


def _absolute(package: str, module: str | None, level: int) -> str:
    if level == 0:
        return module or ""
    above = package.split(".")
    kept = above[: len(above) - (level - 1)]
    return ".".join([*kept, module] if module else kept)


def _is_public(binding: _Binding, used: bool) -> bool:
    """What the package defines is public; what it imports of ours is too, unless it is there for its own use."""
    return binding.module is None or (binding.module.split(".")[0] == "ramify" and not used)


def _all_statement(tree: ast.Module) -> ast.Assign | ast.AnnAssign | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.AnnAssign(target=ast.Name(id="__all__")):
                return node
    return None


def _listed(statement: ast.Assign | ast.AnnAssign) -> list[str] | None:
    if not isinstance(statement.value, ast.List | ast.Tuple):
        return None
    names: list[str] = []
    for element in statement.value.elts:
        if not (isinstance(element, ast.Constant) and isinstance(element.value, str)):
            return None
        names.append(element.value)
    return names


def _module_file(root: Path, module: str) -> Path | None:
    stem = root.joinpath("src", *module.split("."))
    for candidate in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def _package(root: Path, path: Path) -> str:
    return ".".join(path.parent.relative_to(root / "src").parts)


def _defined(root: Path, module: str, name: str, hops: int) -> Iterator[tuple[Path, ast.AST]]:
    path = _module_file(root, module)
    if path is None or hops == 0:
        return
    match dict(_bindings(root, parse(path), _package(root, path))).get(name):
        case _Binding(module=str(source), name=str(original)):
            yield from _defined(root, source, original, hops - 1)
        case _Binding(node=ast.ClassDef() as node):
            yield path, node
            for base in node.bases:
                for inner in ast.walk(base):
                    if isinstance(inner, ast.Name) and inner.id != name:
                        yield from _defined(root, module, inner.id, hops - 1)
        case _Binding(node=ast.FunctionDef() | ast.AsyncFunctionDef() as node):
            yield path, node


def _documented(root: Path, module: str, name: str, hops: int) -> bool:
    path = _module_file(root, module)
    if path is None or hops == 0:
        return True  # another project's name: not ours to document
    tree = parse(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    binding = dict(_bindings(root, tree, package)).get(name)
    if binding is None:
        submodule = _module_file(root, f"{module}.{name}")
        return submodule is not None and ast.get_docstring(parse(submodule)) is not None
    match binding:
        case _Binding(module=str(source), name=str(original)):
            return _documented(root, source, original, hops - 1)
        case _Binding(node=ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() as node):
            return ast.get_docstring(node) is not None
        case _Binding(node=node):
            return _has_words_beside_it(path, tree, node)


def _has_words_beside_it(path: Path, tree: ast.Module, node: ast.stmt) -> bool:
    """A constant has no docstring: a comment on it or above it, or a string after it, is its documentation."""
    lines = ["", *path.read_text(encoding="utf-8").splitlines()]
    if "#" in lines[node.end_lineno or node.lineno] or lines[node.lineno - 1].lstrip().startswith("#"):
        return True
    after = [later for later in tree.body if later.lineno > node.lineno][:1]
    match after:
        case [ast.Expr(value=ast.Constant(value=str()))]:
            return True
    return False
