"""Verification of drafts on tensors: Triton kernels beside their meaning in plain torch."""
