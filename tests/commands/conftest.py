"""A model in a folder: a random Llama of one layer that knows ASCII alone."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from constrain.token_readers import BYTE_LEVEL

STOP = 128


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    pieces = {piece: byte for piece, byte in BYTE_LEVEL.items() if byte < 128}
    tokenizer = Tokenizer(models.BPE(vocab={**pieces, "<stop>": STOP}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<stop>").save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=130,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=STOP,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
