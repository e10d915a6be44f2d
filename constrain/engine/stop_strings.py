"""Stop strings: texts that end an output where they first appear."""

from collections.abc import Sequence


class StopStrings:
    """Looks for any of ``texts`` in the bytes of an output as it grows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = {text.encode(): text for text in texts}
        self._longest = max(map(len, self._texts))
        self._output = bytearray()
        self._looked_from = 0  # no match may end before
        self._lengths: list[int] = []  # of the output before each token

    def feed(self, token_bytes: bytes, *, counts: bool = True) -> tuple[str, int] | None:
        """Add a token; the stop string that it completes, and the length in bytes of the output before it.

        The earliest in the text counts, the longest of those that begin together. Where not ``counts``, what is
        complete already will not count later either.
        """
        start = max(self._looked_from - self._longest + 1, 0) if counts else 0
        self._lengths.append(len(self._output))
        self._output += token_bytes
        found: tuple[int, int, str] | None = None
        if counts:
            for pattern, text in self._texts.items():
                # Where matches that end early do not count, a later one of the same text still may.
                at = self._output.find(pattern, max(start, self._looked_from - len(pattern) + 1, 0))
                if at >= 0 and (found is None or (at, -len(pattern)) < found[:2]):
                    found = (at, -len(pattern), text)
        self._looked_from = len(self._output)
        return None if found is None else (found[2], found[0])

    def rewind(self, num_tokens: int) -> None:
        """Take back the last ``num_tokens`` tokens."""
        for _ in range(num_tokens):
            self._looked_from = self._lengths.pop()
        del self._output[self._looked_from :]
