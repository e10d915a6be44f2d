"""The tokens of a vocabulary as a trie, walked together with a recogniser."""

from collections.abc import Iterable, Iterator, Sequence

from constrain.backends.trie.network import TOKEN
from constrain.backends.trie.recogniser import Column, Recogniser


class TokenTrie:
    """Every byte string of ``token_bytes`` but the empty one, with the ids that write it; special tokens as symbols."""

    def __init__(self, token_bytes: Sequence[bytes], special_token_ids: Iterable[int] = ()) -> None:
        self._children: list[dict[int, int]] = [{}]
        self._ids: list[list[int]] = [[]]
        for token_id, token in enumerate(token_bytes):
            if token:
                self._ids[self._node(token)].append(token_id)
        for token_id in special_token_ids:
            self._ids[self._node((TOKEN + token_id,))].append(token_id)

    def _node(self, token: Iterable[int]) -> int:
        node = 0
        for byte in token:
            child = self._children[node].get(byte)
            if child is None:
                child = self._children[node][byte] = len(self._children)
                self._children.append({})
                self._ids.append([])
            node = child
        return node

    def legal_ids(self, recogniser: Recogniser, column: Column) -> Iterator[int]:
        """The ids whose bytes the recogniser takes from ``column`` on, in no order."""
        todo = [(0, column)]
        while todo:
            node, at = todo.pop()
            yield from self._ids[node]
            children = self._children[node]
            if children:
                moves = recogniser.moves(at)
                # Walk the smaller side: a tight grammar has few moves, and the root of the trie 256 children.
                for byte in moves.keys() & children.keys() if len(moves) < len(children) else children:
                    target = moves.get(byte)
                    if target is not None:
                        todo.append((children[byte], target))
