"""The look of drawings: the same whatever the user has set, and the user's settings are back afterwards."""

import matplotlib as mpl

from likeset.display import drawing


def test_the_users_settings_neither_reach_a_drawing_nor_are_lost() -> None:
    with mpl.rc_context({"font.size": 31.0, "axes.grid": True, "svg.hashsalt": "mine"}):
        with drawing({"axes.titlesize": 7.0}):
            assert mpl.rcParams["font.size"] == 10.0
            assert not mpl.rcParams["axes.grid"]
            assert mpl.rcParams["svg.hashsalt"] == "likeset"
            assert mpl.rcParams["axes.titlesize"] == 7.0
        assert mpl.rcParams["font.size"] == 31.0
        assert mpl.rcParams["axes.grid"]
