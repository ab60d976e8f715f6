"""``mnist``: the paper's appendix experiment."""

from studies.comparison import FURTHER_METHODS, MAIN_METHODS, Comparison, Width

STUDY = Comparison(
    name="mnist",
    description="the paper's appendix experiment: MNIST, five owners by digit groups, target of 3s and 4s",
    title="Summaries of MNIST",
    words=(
        "As in the paper: owners [[0,1],[3,4],[5,6],[7,8],[9,2]]; test images 3 and 4 at 0.7/0.3, a quarter of them "
        "the target and the others held out; Fourier features of length 140; T, epsilons and auction of its "
        "experiments, with 150 seed rows of other digits.",
        "Chosen otherwise: each owner holds 2,500 random images of its digits, where the paper gives it all (about "
        "12,000), so that the whole study ends within an hour on two cores. Pixels are divided by 255; there the "
        "paper's gamma = 0.1 makes gamma·median about 10, a kernel in which nearly all rows are far from one another, "
        "so the study also shows gamma·median = 1 and 3. Methods beside the main ones run with three seeds.",
    ),
    data="mnist",
    variants=("groups",),
    seeds=10,
    sizes=(50, 100, 200, 400),
    widths=(Width(gamma=0.1), Width(scale=1.0), Width(scale=3.0)),
    methods=(*MAIN_METHODS, "greedy-seeded", *FURTHER_METHODS),
    seeds_of=dict.fromkeys(FURTHER_METHODS, 3),
    rows_per_owner=2500,
)
