"""The graph of a flow and its checks: unique ids, existing fallbacks, no cycles, no unreachable nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from orchestrator.yaml_values import get_typed
from providers.decisions.excerpts import render_line
from store.documents.positions import DocumentPath
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.events import Json

CALLING_KINDS = ("model", "exec", "http")
"""Kinds of nodes that make a call, which may abstain or fail: only they have fallbacks."""


@attrs.frozen(kw_only=True)
class _Node:
    index: int
    fallback: str | None
    last: bool
    """Without a fallback, the flow always ends at this node."""


def find_graph_problems(nodes: Sequence[tuple[int, Mapping[str, Json]]], at: DocumentPath) -> Iterator[PathMessage]:
    """Find the problems of the flow at *at*; *nodes* are pairs of index and fields."""
    graph: dict[str, _Node] = {}
    for index, fields in nodes:
        name = get_typed(fields, "id", str)
        if name is None:
            continue
        if name in graph:
            yield (
                (*at, index, "id"),
                f"duplicate node id {describe_value(name)}; the first is flow[{graph[name].index}]",
            )
        else:
            graph[name] = _Node(index=index, fallback=get_typed(fields, "fallback", str), last=_is_final(fields))
    for name, node in graph.items():
        where = (*at, node.index, "fallback")
        if node.fallback == name:
            yield where, "a node cannot be its own fallback"
        elif node.fallback is not None and node.fallback not in graph:
            hint = suggest_nearest(node.fallback, graph)
            yield where, f"there is no node {describe_value(node.fallback)}{hint}; nodes: {', '.join(graph)}"
    for cycle in _find_cycles(graph):
        path = " -> ".join(render_line(name, 100) for name in [*cycle, cycle[0]])
        yield (*at, graph[cycle[-1]].index, "fallback"), f"fallbacks form a cycle: {path}"
    yield from _find_unreachable(graph, at)


def _is_final(node: Mapping[str, Json]) -> bool:
    """Return whether a flow ends at the node unless its fallback goes on."""
    if node.get("kind") == "rule":
        return str(node.get("when")).strip() == "true"
    return node.get("kind") in CALLING_KINDS and node.get("decides", True) is True


def _find_cycles(graph: Mapping[str, _Node]) -> Iterator[list[str]]:
    """Find the cycles of two or more fallbacks, each once, starting with its first node in the file."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        name: str | None = start
        while name is not None and name in graph and name not in done and name not in path:
            path.append(name)
            name = graph[name].fallback
        if name in path and len(cycle := path[path.index(name) :]) > 1:
            yield cycle
        done.update(path)


def _find_unreachable(graph: Mapping[str, _Node], at: DocumentPath) -> Iterator[PathMessage]:
    """Find the nodes after a node at which the flow always ends, except fallbacks."""
    fallbacks = {node.fallback for name, node in graph.items() if node.fallback != name}
    end: str | None = None
    for name, node in graph.items():
        if name in fallbacks:
            continue
        if end is not None:
            reason = f"the flow always ends with {describe_value(end)} before it"
            yield (
                (*at, node.index),
                f"node {describe_value(name)} is never reached: {reason}; make it a fallback or put it first",
            )
        elif _always_ends(name, graph, frozenset()):
            end = name


def _always_ends(name: str, graph: Mapping[str, _Node], seen: frozenset[str]) -> bool:
    """Return whether a flow that reaches this node never continues with the next one in the list."""
    node = graph[name]
    if not node.last or name in seen or node.fallback is None or node.fallback not in graph:
        return node.last
    return _always_ends(node.fallback, graph, seen | {name})
