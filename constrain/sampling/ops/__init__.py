"""Operations on logits: one file each, plain torch beside Triton kernels for CUDA."""
