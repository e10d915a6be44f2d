"""Operations on logits: one file each, plain torch now."""
