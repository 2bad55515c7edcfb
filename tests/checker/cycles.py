"""Cycles in graphs of transactions: strongly connected components (Tarjan 1972), without recursion."""

from collections.abc import Iterator, Mapping

Graph = Mapping[int, set[int]]


def union(*graphs: Graph) -> dict[int, set[int]]:
    """All edges of all of them."""
    return {node: set().union(*(graph.get(node, set()) for graph in graphs)) for graph in graphs for node in graph}


def components(graph: Graph) -> list[set[int]]:
    """The sets of nodes that lie on cycles with each other, largest ones, without those of one node."""
    found: list[set[int]] = []
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()

    def enter(node: int) -> tuple[int, Iterator[int]]:
        order[node] = low[node] = len(order)
        path.append(node)
        on_path.add(node)
        return node, iter(sorted(graph.get(node, ())))

    for root in graph:
        walk = [enter(root)] if root not in order else []
        while walk:
            node, following = walk[-1]
            for after in following:
                if after not in order:
                    walk.append(enter(after))
                    break
                if after in on_path:
                    low[node] = min(low[node], order[after])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    component = {path.pop()}
                    while node not in component:
                        component.add(path.pop())
                    on_path -= component
                    if len(component) > 1:
                        found.append(component)
    return found
