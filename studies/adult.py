"""``adult``: owners by work class, or by country of birth."""

from studies.comparison import FURTHER_METHODS, MAIN_METHODS, Comparison, Width
from studies.data.adult import LEFT_OUT

STUDY = Comparison(
    name="adult",
    description="UCI Adult: owners by work class or country; federal employees, or people from Mexico, as the target",
    title="People like those of one work class, or one country",
    words=(
        "By work class the target are federal employees, by country people born in Mexico: half of them, at most 400; "
        "the others are held out. The label is whether the income exceeds 50K. Owners are work classes and countries "
        "with at least 80 rows, with at most 2,500 rows each. Numbers are scaled by public bounds; what tells owners "
        "apart is no feature. Seed rows of the paper's protocol are random within the bounds.",
    ),
    data="adult",
    variants=tuple(LEFT_OUT),
    seeds=5,
    sizes=(50, 100, 200),
    widths=(Width(scale=1.0),),
    methods=(*MAIN_METHODS, *FURTHER_METHODS),
    seeds_of=dict.fromkeys(FURTHER_METHODS, 3),
    rows_per_owner=2500,
)
