"""Speculative decoding: drafts, their masks and their verification. Knows nothing of engines and requests."""

from constrain.spec.by_name import make_proposer
from constrain.spec.combined import CombinedProposer
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.spec.draft_model import DraftModelProposer
from constrain.spec.forced import ForcedTokensProposer
from constrain.spec.grammar_lookup import GrammarLookupProposer
from constrain.spec.guarded import GuardedProposer
from constrain.spec.length import AdaptiveLength, ConstantLength, DraftLength, LengthByBatch
from constrain.spec.masks import DraftMasks, fill_draft_bitmask
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ngram import NgramProposer
from constrain.spec.rejection_sampler import RejectionSampler, Verified
from constrain.spec.statistics import SpecStatistics
from constrain.spec.synthetic import rates_of_length
from constrain.spec.windows import window_seed, window_seeds

__all__ = [
    "AdaptiveLength",
    "CombinedProposer",
    "ConstantLength",
    "Draft",
    "DraftLength",
    "DraftMasks",
    "DraftModelProposer",
    "DrawKey",
    "ForcedTokensProposer",
    "GrammarLookupProposer",
    "GuardedProposer",
    "LengthByBatch",
    "NgramProposer",
    "Proposer",
    "RejectionSampler",
    "SpecDecodeMetadata",
    "SpecStatistics",
    "Verified",
    "fill_draft_bitmask",
    "make_proposer",
    "rates_of_length",
    "window_seed",
    "window_seeds",
]
