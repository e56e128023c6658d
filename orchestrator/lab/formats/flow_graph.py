"""The ways through a flow: ids that stand once, fallbacks that lead somewhere, nodes that something leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from orchestrator.yaml_values import get_typed
from providers.decisions.excerpts import render_line
from store.documents.positions import DocumentPath
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.events import Json

CALLING_KINDS = ("model", "exec", "http")
"""Kinds of nodes that ask somebody, who may abstain or fail: only they have fallbacks."""


@attrs.frozen(kw_only=True)
class _Node:
    index: int
    fallback: str | None
    last: bool
    """Where it has no fallback, the flow ends with it whatever it comes to."""


def find_graph_problems(nodes: Sequence[tuple[int, Mapping[str, Json]]], at: DocumentPath) -> Iterator[PathMessage]:
    """What is wrong with the ways through the flow at *at*, whose *nodes* come with their indices."""
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
    for circle in _find_cycles(graph):
        way = " -> ".join(render_line(name, 100) for name in [*circle, circle[0]])
        yield (*at, graph[circle[-1]].index, "fallback"), f"fallbacks go round in a circle: {way}"
    yield from _find_unreachable(graph, at)


def _is_final(node: Mapping[str, Json]) -> bool:
    if node.get("kind") == "rule":
        return str(node.get("when")).strip() == "true"
    return node.get("kind") in CALLING_KINDS and node.get("decides", True) is True


def _find_cycles(graph: Mapping[str, _Node]) -> Iterator[list[str]]:
    """The circles of two and more nodes that fallbacks make, each once, beginning with its first node in the file."""
    done: set[str] = set()
    for start in graph:
        way: list[str] = []
        name: str | None = start
        while name is not None and name in graph and name not in done and name not in way:
            way.append(name)
            name = graph[name].fallback
        if name in way and len(circle := way[way.index(name) :]) > 1:
            yield circle
        done.update(way)


def _find_unreachable(graph: Mapping[str, _Node], at: DocumentPath) -> Iterator[PathMessage]:
    """Nodes after one with which the flow always ends, unless they are somebody's fallback."""
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
    """Whether a flow that comes to this node never goes on to the next one in the list."""
    node = graph[name]
    if not node.last or name in seen or node.fallback is None or node.fallback not in graph:
        return node.last
    return _always_ends(node.fallback, graph, seen | {name})
