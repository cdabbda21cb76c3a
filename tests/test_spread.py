"""Printed spreads: every kind leads back to one standard deviation."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.spread import sd_from_spread


def test_every_kind_of_spread_means_the_same_deviation():
    sd, n = 0.3, 5
    kinds = {
        "sd": sd,
        "se": sd / math.sqrt(n),
        "sd0": sd * math.sqrt((n - 1) / n),
        "ci95_t": stats.t.ppf(0.975, n - 1) * sd / math.sqrt(n),
        "ci95_z": stats.norm.ppf(0.975) * sd / math.sqrt(n),
    }
    for kind, spread in kinds.items():
        assert float(sd_from_spread(spread, n, kind)) == pytest.approx(sd, rel=1e-13)


def test_one_run_has_no_deviation_whatever_was_printed():
    for kind in ("sd", "se", "sd0", "ci95_t", "ci95_z"):
        assert np.isnan(sd_from_spread([0.0, 0.0], [1, 0], kind)).all()


def test_a_negative_spread_and_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match=r"cannot be negative; got -0\.1"):
        sd_from_spread([0.2, -0.1], 3, "sd")
    with pytest.raises(ValueError, match="one of sd, se, sd0, ci95_t, ci95_z; got 'std'"):
        sd_from_spread(0.2, 3, "std")
