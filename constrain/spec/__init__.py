"""Speculative decoding: drafts, their masks and their verification. Knows nothing of engines and requests."""
