"""``allstate``: the paper's main experiment, for who brings Kaggle's file."""

from studies.comparison import FURTHER_METHODS, MAIN_METHODS, Comparison, Width

STUDY = Comparison(
    name="allstate",
    description="the paper's main experiment, on the train.csv of Kaggle's Allstate competition, which you bring",
    title="Customers like Connecticut's",
    words=(
        "As in the paper: Florida is split over four owners, 70% of Connecticut goes to one of them, a quarter of the "
        "rest is the target and the remainder is held out; 150 customers of Ohio are the seed rows. Of each customer "
        "the last record counts. SVM is the mean over the seven products A to G, one classifier each (`svm_each` in "
        "the lines); owners' labels, and the net, are product A. The paper does not say which columns it used or how "
        "it scaled them: here, what is known of the customer, by public bounds, without place and products.",
    ),
    data="allstate",
    variants=("states",),
    seeds=10,
    sizes=(50, 100, 200, 400),
    widths=(Width(gamma=0.1), Width(scale=1.0), Width(scale=3.0)),
    methods=(*MAIN_METHODS, *FURTHER_METHODS),
    seeds_of=dict.fromkeys(FURTHER_METHODS, 3),
)
