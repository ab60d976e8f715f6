"""``joint``: what a summary gains where the curator matches rows together with their labels."""

from studies.comparison import Comparison, Width

STUDY = Comparison(
    name="joint",
    description="MNIST, three markets: rows matched together with their labels, against rows alone and exact greedy",
    title="Rows matched together with their labels",
    words=(
        "The target are 3s and 4s, without labels; the curator imputes these from the offers and matches the joint "
        "distribution. `groups`: the paper's five owners, all images; `rare`: five "
        "owners with 120 right images among 6,120 each; `skewed`: up to 80 owners, each digit dealt unevenly.",
    ),
    data="mnist",
    variants=("groups", "rare", "skewed"),
    seeds=10,
    sizes=(200,),
    widths=(Width(scale=3.0),),
    methods=("exact", "sealed", "sealed-joint"),
    offers_of={"skewed": 20},
    first_seed=400,
)
