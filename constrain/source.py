"""Where logits come from."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from constrain.errors import InvalidInputError, SourceError


@dataclass(frozen=True, slots=True)
class SequenceView:
    """One request as a source sees it for one call: the whole truth, so that a source keeps nothing it must undo.

    ``slot`` names the request for as long as it lives; a source that caches keys and values compares ``token_ids``
    with what it has seen in that slot and drops what differs. ``token_ids`` is prompt, output and draft; the caller
    may change the list after the call. ``num_logits`` rows are wanted, those that follow the last ``num_logits`` ids.
    With ``hidden_states`` the source also keeps the model's inner states for :meth:`LogitsSource.hidden_states`.
    """

    slot: int
    token_ids: Sequence[int]
    num_logits: int = 1
    hidden_states: bool = False


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The model's inner states at the positions that one call computed for one slot.

    ``states`` is [layers, positions, H], for the positions ``start`` to the end of the view's token ids; the last
    ``num_logits`` of them belong to the rows of the logits. Positions before ``start`` were in the cache and are not
    computed again, so a draft model that reads every position (EAGLE) asks from the first call on and keeps its own
    cache, cut to ``start``; one that reads the last position only (Medusa) takes ``states[:, -1]``.
    """

    start: int
    states: torch.Tensor


class LogitsSource(ABC):
    """Gives next-token logits for a batch of sequences."""

    @property
    def logits_width(self) -> int | None:
        """The last axis of the logits, where the source knows it before the first call."""
        return None

    @property
    def max_length(self) -> int | None:
        """The longest sequence it takes, in tokens; None where there is no limit."""
        return None

    @property
    def max_rows(self) -> int | None:
        """The most slots that it serves at one time; None where there is no limit."""
        return None

    @property
    def device(self) -> torch.device:
        """Where the logits are."""
        return torch.device("cpu")

    @abstractmethod
    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        """Logits [N, V] in the order of ``views``, N = the sum of their ``num_logits``; any floating dtype."""

    def hidden_states(self, slot: int) -> HiddenStates:
        """What the last call computed inside the model for the view of ``slot``, which must have asked for it.

        The tensors are the caller's to keep. ``InvalidInputError`` where the view did not ask or the source has none.
        """
        raise InvalidInputError(f"{type(self).__name__} gives no hidden states")

    def release(self, slot: int) -> None:  # noqa: B027  # doing nothing is right for a source without a cache
        """Forget ``slot``: its request has ended. Nothing to do for a source without a cache."""


class FunctionSource(LogitsSource):
    """Any function from token ids to logits.

    ``function`` takes a list of B lists of token ids and returns the next-token logits of each: B rows of V, as a
    tensor, an array or nested lists. ``device`` is where its logits are, and where tokens are then drawn; logits from
    elsewhere are copied there.
    """

    def __init__(
        self,
        function: Callable[[list[list[int]]], Any],
        *,
        logits_width: int | None = None,
        max_length: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._function = function
        self._device = torch.device(device)
        self._logits_width = logits_width
        self._max_length = max_length

    @property
    def logits_width(self) -> int | None:
        return self._logits_width

    @property
    def max_length(self) -> int | None:
        return self._max_length

    @property
    def device(self) -> torch.device:
        return self._device

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        prefixes = [
            list(view.token_ids[: len(view.token_ids) - back])
            for view in views
            for back in range(view.num_logits - 1, -1, -1)
        ]
        logits = self._function(prefixes)
        return logits if isinstance(logits, torch.Tensor) else torch.tensor(np.asarray(logits))


def source_lock(source: LogitsSource) -> threading.RLock:
    """The one lock of ``source``, held during a call by whoever may share it with another thread.

    Taking turns is enough: views say the whole truth, so a caching source finds out by itself whose turn it is.
    """
    lock: threading.RLock = source.__dict__.setdefault("_constrain_lock", threading.RLock())
    return lock


def checked_logits(source: LogitsSource, views: Sequence[SequenceView], logits_width: int) -> torch.Tensor:
    """``source(views)``, or ``SourceError`` unless it gave float rows [N, logits_width], N as asked."""
    try:
        with torch.no_grad():  # a source need not know that nobody trains here
            logits = source(views)
    except SourceError:
        raise
    except Exception as exc:
        raise SourceError(f"{type(source).__name__} raised {type(exc).__name__}: {exc}") from exc
    wanted = (sum(view.num_logits for view in views), logits_width)
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point():
        kind = f"{logits.dtype} tensor" if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise SourceError(f"{type(source).__name__} returned a {kind}; want float logits of shape {wanted}")
    if logits.layout is not torch.strided or logits.is_meta:
        raise SourceError(
            f"{type(source).__name__} returned {logits.layout} logits on {logits.device}; want dense ones"
        )
    if tuple(logits.shape) != wanted:
        raise SourceError(f"{type(source).__name__} returned shape {tuple(logits.shape)}; want {wanted}")
    return logits.detach()
