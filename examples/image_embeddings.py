# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Images, by their embeddings
#
# Pixels are poor columns to compare: a digit that moved by one pixel is far from itself. Images are better compared by
# vectors that a public network gives. Here principal components of public images stand in for the network, so that the
# example needs nothing but scikit-learn. Run it anywhere:
#
#     .venv/bin/python examples/image_embeddings.py

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from likeset import Summarizer, evaluate, squared_mmd

images, digits = load_digits(return_X_y=True)

# %% [markdown]
# ## An embedding that was learned from nobody's rows
#
# Whatever maps rows to vectors must be public. A map that is fitted to an owner's images, or to the target, tells about
# them. The first 400 images are public here, and nobody's. Vectors get length 1: a unit of distance is then the
# same for everybody (in a schema: `kind: vector`, `norm: 1`).

# %%
network = PCA(n_components=16, random_state=8).fit(images[:400])


def embedded(pictures):
    vectors = network.transform(pictures)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# %% [markdown]
# ## The market
#
# The consumer has 120 images of 3s, 4s and 9s without labels. Three owners have other mixtures. The last images are
# kept to judge by.

# %%
wanted = (3, 4, 9)
mixtures = {"north": (0, 1, 3, 9), "south": (2, 4, 5, 6), "east": (7, 8, 9, 1)}
market, market_digits = images[400:1400], digits[400:1400]
later, later_digits = images[1400:], digits[1400:]
is_target = np.isin(market_digits, wanted) & (np.arange(len(market)) % 2 == 0)
target = embedded(market[is_target][:120])
pool = {name: np.flatnonzero(~is_target & np.isin(market_digits, mixture)) for name, mixture in mixtures.items()}

matched = Summarizer(size=60, epsilon=4.0).fit(
    target,
    {name: embedded(market[numbers]) for name, numbers in pool.items()},
    {name: market_digits[numbers] for name, numbers in pool.items()},
)
print(f"{np.isin(matched.labels_, wanted).mean():.0%} of 60 images are 3s, 4s and 9s")

# %% [markdown]
# ## From vectors back to images
#
# `indices_` says whose row each one is, and which.

# %%
bought = np.array([market[pool[owner][row]] for owner, row in matched.indices_])
print(
    "bought:", bought.shape, "by owner:", {name: sum(owner == name for owner, _ in matched.indices_) for name in pool}
)

# %% [markdown]
# ## What models learn from them

# %%
everything = np.concatenate(list(pool.values()))
chosen = np.random.default_rng(8).choice(everything, 60, replace=False)
asked = np.isin(later_digits, wanted)
judged = evaluate(
    embedded(bought),
    matched.labels_,
    test_rows=embedded(later[asked]),
    test_labels=later_digits[asked],
    compare={"60 at random": (embedded(market[chosen]), market_digits[chosen])},
    resamples=200,
)
for line in judged.models:
    print(f"{line.training_set}, {line.model}: {line.scores['balanced_accuracy'].value:.2f}")
near, far = (
    squared_mmd(rows, embedded(later[asked]), gamma=matched.gamma_)
    for rows in (embedded(bought), embedded(market[chosen]))
)
print(f"MMD² to the later images: of the summary {near:.3f}, of rows at random {far:.3f}")
