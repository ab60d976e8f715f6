"""``joint``: what a summary gains where the curator matches rows together with their labels."""

from studies.comparison import Comparison, Width

__all__ = ["STUDY"]

STUDY = Comparison(
    name="joint",
    description="MNIST, three markets: rows matched together with their labels, against rows alone and exact greedy",
    title="Rows matched together with their labels",
    words=(
        "The target are 3s and 4s, without labels; the curator imputes these from the offers and matches the joint "
        "distribution. Owners hear nothing of it. `groups`: the paper's five owners, all images; `rare`: five "
        "owners with 120 right images among 6,120 each; `skewed`: up to 80 owners, each digit dealt unevenly.",
    ),
    data="mnist",
    variants=("groups", "rare", "skewed"),
    seeds=10,
    sizes=(200,),
    widths=(Width(scale=3.0),),
    epsilons=(0.5, 1.0),
    methods=("exact", "pooled", "sealed", "sealed-joint", "uniform"),
    offers_of={"skewed": 20},
    seeds_of={"pooled": 2, "uniform": 2, "sealed": 5},
    seeds_at={("rare", 0.5): 3, ("skewed", 0.5): 3},
    first_seed=200,
)
