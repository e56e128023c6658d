"""Reads the product's own source: which names, modules and folders it has.

`python -m tests.house` prints the figures; `--list` adds every one-word function name; `--draw 60` prints names
drawn by `--seed`, without code, for a reader to explain.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("orchestrator", "providers", "store", "verifiers")
PROPERTIES = frozenset({"property", "cached_property", "setter", "default", "validator"})
IRREGULAR_PARTICIPLES = frozenset(
    {
        "begun",
        "bound",
        "broken",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fallen",
        "felt",
        "found",
        "given",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "proven",
        "said",
        "seen",
        "sent",
        "shown",
        "spent",
        "spoken",
        "stood",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "understood",
        "woken",
        "won",
        "worn",
        "written",
    }
)
VERBS_IN_ED = frozenset({"embed", "feed", "need", "seed", "speed", "succeed", "proceed", "exceed", "shed"})


@attrs.frozen(kw_only=True)
class FunctionName:
    """The name of a function or method of the product, and its place."""

    name: str
    module: Path
    line: int
    owner: str
    """The class or function around it; empty at the top of a module."""

    @property
    def full(self) -> str:
        """The name with its owner."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def words(self) -> int:
        """How many words the name has."""
        return len([word for word in self.name.split("_") if word])

    @property
    def is_lone_participle(self) -> bool:
        """Whether it is one past participle, which says what was done and not what the function does."""
        word = self.name.strip("_")
        if "_" in word or word in VERBS_IN_ED:
            return False
        return word.endswith("ed") or word in IRREGULAR_PARTICIPLES


def product_modules() -> list[Path]:
    """Every module of the product, in order."""
    return sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))


def read_module(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def class_names(modules: Sequence[Path]) -> Counter[str]:
    """How often each class name is defined."""
    return Counter(
        node.name for path in modules for node in ast.walk(read_module(path)) if isinstance(node, ast.ClassDef)
    )


def function_names(modules: Sequence[Path]) -> list[FunctionName]:
    """Functions and methods but for dunders, properties, typer's verbs, and the methods of a port.

    A method of a port has a short name because the field that holds the port names what it does:
    `ledger.finish_attempt`. Methods of a `Protocol` count as such, and those of a class that has all methods of one.
    """
    trees = {path: read_module(path) for path in modules}
    ports = [
        frozenset(name for name, _ in _methods(node))
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    ]
    verbs = _verbs()
    found: list[FunctionName] = []
    for path, tree in trees.items():
        found += _names_in(tree, path, "", [port for port in ports if port], verbs)
    return found


def one_word_share(names: Sequence[FunctionName]) -> float:
    """The share of names that are a single word."""
    return sum(name.words == 1 for name in names) / len(names)


def _names_in(
    node: ast.AST, path: Path, owner: str, ports: Sequence[frozenset[str]], verbs: frozenset[str]
) -> Iterator[FunctionName]:
    port_methods: frozenset[str] = frozenset()
    if isinstance(node, ast.ClassDef):
        own = frozenset(name for name, _ in _methods(node))
        port_methods = frozenset().union(*(port for port in ports if port <= own))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{path.relative_to(ROOT).with_suffix('').as_posix()}:{child.name}"
            if not (_is_exempt(child) or child.name in port_methods or place in verbs):
                yield FunctionName(name=child.name, module=path, line=child.lineno, owner=owner)
            yield from _names_in(child, path, child.name, ports, verbs)
        elif isinstance(child, ast.ClassDef):
            yield from _names_in(child, path, child.name, ports, verbs)
        else:
            yield from _names_in(child, path, owner, ports, verbs)


def _methods(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_exempt(child):
            yield child.name, child


def _is_exempt(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return node.name.startswith("__") or bool(decorators & PROPERTIES)


def _verbs() -> frozenset[str]:
    """The functions that typer calls, as `path/of/module:function`."""
    table = read_module(ROOT / "orchestrator" / "cli" / "verbs.py")
    strings = {node.value for node in ast.walk(table) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    places = {text for text in strings if text.count(":") == 1 and text.replace(".", "").replace("_", "").isascii()}
    return frozenset(f"orchestrator/cli/{place.replace('.', '/')}" for place in places) | {
        "orchestrator/cli/app:evalctl"
    }


def describe_house(*, with_list: bool = False) -> Iterator[str]:
    """The figures, a line each; *with_list* begins with every one-word name."""
    modules = product_modules()
    names = function_names(modules)
    single = [name for name in names if name.words == 1]
    if with_list:
        yield from (f"{name.module.relative_to(ROOT)}:{name.line} {name.full}" for name in single)
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in modules)
    yield f"functions: {len(names)}, of one word: {len(single)} ({one_word_share(names):.1%})"
    yield f"lone past participles: {sum(name.is_lone_participle for name in names)}"
    yield f"class names used twice: {sorted(name for name, count in class_names(modules).items() if count > 1)}"
    yield f"modules: {len(modules)}, median lines {lines[len(lines) // 2]}, most {lines[-1]}"


def draw_names(count: int, seed: int) -> list[str]:
    """*count* names drawn by *seed*, with the class that a method belongs to."""
    return [name.full for name in random.Random(seed).sample(function_names(product_modules()), count)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every one-word function name")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="print N names drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    lines = draw_names(options.draw, options.seed) if options.draw else describe_house(with_list=options.list)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
