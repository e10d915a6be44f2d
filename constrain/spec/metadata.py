"""Where the rows of a step's drafts lie."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from constrain.errors import InvalidInputError

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SpecDecodeMetadata:
    """Indices of B requests with K_b draft tokens each; M = sum of K_b, N = M + B rows, int64 on one device.

    A request has K_b + 1 rows that stand together: one behind its committed tokens and one behind each draft token. The
    first K_b, *target* rows, verify the draft; the last one, the *bonus* row, gives the token behind an accepted draft,
    or the only token where there is none.
    """

    max_drafts: int  # the largest K_b
    num_drafts: torch.Tensor  # [B]
    cu_num_drafts: torch.Tensor  # [B], inclusive
    draft_token_ids: torch.Tensor  # [M]
    logits_indices: torch.Tensor  # [N], into the positions that the model computed
    target_logits_indices: torch.Tensor  # [M], into the N rows
    bonus_logits_indices: torch.Tensor  # [B], into the N rows
    row_requests: torch.Tensor  # [N], the request of each row
    rows_by_position: torch.Tensor  # [N], the rows in the order of (draft tokens before them, request)
    requests_by_position: torch.Tensor  # [N], the request of each of these
    places_by_position: torch.Tensor  # [N], the draft tokens before each of these

    @classmethod
    def make(
        cls,
        num_drafts: Sequence[int] | _Ints,  # B
        draft_token_ids: Sequence[int] | _Ints,  # M
        *,
        cu_num_positions: Sequence[int] | _Ints | None = None,  # B
        device: torch.device | str = "cpu",
    ) -> "SpecDecodeMetadata":
        """The indices, moved to ``device`` in one copy.

        ``cu_num_positions`` are cumulated numbers of the positions that the model computes for each request: K_b + 1,
        or more where a prompt is read; None for a model that gives the N rows and nothing else. ``InvalidInputError``
        where the numbers do not fit.
        """
        counts = np.asarray(num_drafts, dtype=np.int64)
        drafts = np.asarray(draft_token_ids, dtype=np.int64)
        num_rows = counts + 1
        row_ends = num_rows.cumsum()
        ends = row_ends if cu_num_positions is None else np.asarray(cu_num_positions, dtype=np.int64)
        _check(counts, drafts, ends, num_rows)
        in_request = np.arange(num_rows.sum()) - np.repeat(row_ends - num_rows, num_rows)
        row_requests = np.repeat(np.arange(len(counts)), num_rows)
        by_position = np.argsort(in_request, kind="stable")
        draft_ends = counts.cumsum()
        in_draft = np.arange(counts.sum()) - np.repeat(draft_ends - counts, counts)
        parts = [
            counts,
            draft_ends,
            drafts,
            np.repeat(ends - num_rows, num_rows) + in_request,
            np.repeat(row_ends - num_rows, counts) + in_draft,
            row_ends - 1,
            row_requests,
            by_position,
            row_requests[by_position],
            in_request[by_position],
        ]
        packed = torch.from_numpy(np.concatenate(parts))
        if torch.device(device).type == "cuda":
            packed = packed.pin_memory().to(device, non_blocking=True)
        return cls(int(counts.max(initial=0)), *torch.split(packed, [len(part) for part in parts]))

    def __len__(self) -> int:
        return len(self.num_drafts)

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.logits_indices)


def _check(counts: _Ints, drafts: _Ints, ends: _Ints, num_rows: _Ints) -> None:
    if counts.ndim != 1 or (counts < 0).any() or counts.sum() != len(drafts):
        raise InvalidInputError(f"{len(drafts)} draft tokens for draft lengths {counts.tolist()}: want their sum")
    if ends.shape != counts.shape or (np.diff(ends, prepend=0) < num_rows).any():
        raise InvalidInputError(
            f"cu_num_positions={ends.tolist()}: want cumulated numbers, each at least one more than the draft's length"
        )
