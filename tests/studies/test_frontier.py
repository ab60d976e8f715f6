"""The fit of the frontier finds what is there, and the advice agrees with the record."""

from pathlib import Path

import numpy as np
import pytest

from studies.contract import RecordLine
from studies.frontier_fit import (
    NO_NOISE,
    Fit,
    Gain,
    agreement,
    fit_in_use,
    fit_signal,
    halves,
    measured_gains,
    outlook_of,
    points_of,
    residual,
)

RECORD = Path(__file__).parents[2] / "studies/results/frontier/cells.jsonl"


def gain(noise: float, fit: Fit, *, best: float, setting: float, offers: float) -> Gain:
    return Gain((setting, 5.0, 200.0, offers, 600.0), 1.0, noise, best * fit.share(noise, offers), best, 1)


@pytest.mark.parametrize(("signal", "power"), [(0.03, 0.0), (0.1, 0.6), (0.3, 1.0)])
def test_the_fit_finds_the_signal_and_how_it_grows_with_offers(signal: float, power: float) -> None:
    truth = Fit(signal, power)
    gains = [
        gain(noise, truth, best=best, setting=place, offers=offers)
        for place, (best, offers) in enumerate(((0.2, 10.0), (0.7, 3.0), (1.1, 10.0), (0.5, 30.0)))
        for noise in np.geomspace(0.003, 1.0, 7)
    ]
    fitted = fit_signal(gains)
    assert fitted.signal == pytest.approx(signal, rel=0.01)
    assert fitted.power == pytest.approx(power)
    assert residual(gains, fitted) < 0.01 < residual(gains, Fit(3 * signal, power))
    assert fitted.share(signal) == pytest.approx(0.5, abs=0.01)
    first, second = halves(gains)
    assert not {one.setting for one in first} & {one.setting for one in second}
    assert len(first) == len(second) == 14
    right, clear = agreement(gains, fit=truth, margin=1.5)
    assert right == clear > 14
    wrong, clear = agreement(gains, fit=Fit(10 * signal, power), margin=1.5)
    assert wrong < clear


def test_the_advice_uses_the_formula_that_is_fitted() -> None:
    """More noise than signal: uniform offers; as much: half of the gain; more offers raise the signal."""
    used = fit_in_use()
    for target, epsilon, offers in ((50, 0.25, 10.0), (360, 1.0, 3.0), (2000, 0.1, 30.0)):
        outlook = outlook_of(target=target, epsilon=epsilon, offer_factor=offers)
        assert outlook.signal == pytest.approx(used.at(offers))
        assert outlook.pays == (used.share(outlook.noise, offers) >= 0.5)
    assert used.at(3.0) < used.at(10.0) < used.at(30.0)


def test_the_advice_agrees_with_the_recorded_frontier() -> None:
    """On MNIST, noise a factor 1.5 or more away from the signal: 'pays' exactly where half of the gain was kept.

    Only settings in which a release without noise gains a tenth or more say anything.
    """
    texts = RECORD.read_text(encoding="utf-8").splitlines()
    gains, used = measured_gains(RecordLine.from_json(text) for text in texts), fit_in_use()
    settings: dict[tuple[float, ...], list[Gain]] = {}
    for one in gains:
        settings.setdefault(one.setting, []).append(one)
    results = [agreement(mine, fit=used, margin=1.5) for mine in settings.values()]
    telling = [(right, clear) for right, clear in results if clear >= 3]
    assert len(telling) >= 6
    assert sum(right for right, _ in telling) >= 0.95 * sum(clear for _, clear in telling)
    words = {one.noise <= used.at(one.offer_factor) for one in gains if one.counts}
    assert words == {True, False}  # both words were put to the test


def test_the_page_on_choosing_argues_from_held_out_ratios() -> None:
    """Its table of offers per row is that of the record: 360 target rows, 200 wanted, right rows one in fifty."""
    lines = [RecordLine.from_json(text) for text in RECORD.read_text(encoding="utf-8").splitlines()]
    found = {
        (point.setting["offer_factor"], point.method, point.epsilon): f"{point.ratio:.2f}"
        for point in points_of(lines)
        if point.at({"target": 360, "owners": 5, "size": 200, "offer_factor": 10, "right": 600}, but="offer_factor")
    }
    methods = (("uniform-offers", None), *(("sealed", epsilon) for epsilon in (0.25, 0.5, 1.0, NO_NOISE)))
    page = (RECORD.parents[3] / "docs/choosing.md").read_text(encoding="utf-8")
    for offers in (3.0, 10.0, 30.0):
        ratios = " | ".join(found[offers, method, epsilon] for method, epsilon in methods)
        assert f"| {offers:g} | {ratios} |" in page
