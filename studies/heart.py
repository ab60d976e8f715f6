"""``heart``: four hospitals, one of which is left out."""

from studies.comparison import FURTHER_METHODS, MAIN_METHODS, Comparison, Width
from studies.data.heart import HOSPITALS

STUDY = Comparison(
    name="heart",
    description="UCI Heart Disease: leave one hospital out; its patients are the target, three hospitals are owners",
    title="Patients like those of one hospital",
    words=(
        "Half of the left-out hospital's patients are the target, the other half is held out. The label is whether "
        "disease was found. Numbers are scaled by public bounds; a missing one is put in the middle and marked. Seed "
        "rows of the paper's protocol are random within the bounds.",
    ),
    data="heart",
    variants=HOSPITALS,
    seeds=5,
    sizes=(25, 50, 100),
    widths=(Width(scale=1.0),),
    methods=(*MAIN_METHODS, *FURTHER_METHODS),
    offers=60,
)
