"""Spectra of heads: against closed forms and against the full products they avoid."""

import math

import pytest
import torch

from runner.geometry import (
    effective_rank,
    energy_rank,
    interaction_spectrum,
    participation_ratio,
    relative_change,
)


def drawn(*shape, seed=3):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_an_even_spread_uses_every_direction_and_a_line_one():
    even = drawn(2, 20_011, 7)
    torch.testing.assert_close(
        participation_ratio(even), torch.full((2,), 7.0, dtype=torch.float64), rtol=3e-3, atol=0.0
    )
    line = drawn(3, 101, 1) * drawn(3, 1, 7, seed=4) + 1e3  # far from the origin: it is centred
    torch.testing.assert_close(participation_ratio(line), torch.ones(3, dtype=torch.float64))


def test_it_is_the_ratio_of_the_covariances_eigenvalues_whatever_the_scale_and_the_place():
    x = drawn(1, 53, 5) @ drawn(5, 5, seed=5)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(x[0].T))
    expected = eigenvalues.sum() ** 2 / eigenvalues.square().sum()
    for same in (x, 1e-6 * x, x + 17.0, x.flip(1)):
        assert float(participation_ratio(same)) == pytest.approx(float(expected), rel=1e-9)


def test_few_vectors_of_an_even_spread_give_less_as_stated():
    size, vectors = 31, 61
    found = participation_ratio(drawn(400, vectors, size)).mean()
    assert float(found) == pytest.approx(size / (1 + size / vectors), rel=0.03)


def test_vectors_that_are_all_alike_have_no_ratio():
    assert participation_ratio(torch.ones(1, 5, 3)).isnan().all()


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 6), (6, 3), (6, 1)])
@pytest.mark.parametrize(("width", "size"), [(23, 7), (5, 7)])
def test_the_spectrum_is_that_of_the_full_product(heads, kv_heads, width, size):
    query, key = drawn(heads, width, size), drawn(kv_heads, width, size, seed=4)
    found = interaction_spectrum(query, key)
    for h in range(heads):
        w_q, w_k = query[h].T, key[h // (heads // kv_heads)].T
        full = torch.linalg.svdvals(w_k.T @ w_q)[: found.shape[1]]
        torch.testing.assert_close(found[h], full)
        squared = torch.linalg.eigvals((w_k @ w_k.T) @ (w_q @ w_q.T)).real.clamp(min=0)
        largest = squared.sort(descending=True).values[: found.shape[1]]
        torch.testing.assert_close(found[h], largest.sqrt(), rtol=1e-5, atol=1e-5)
        shares = full / full.sum()
        entropy = -float((shares * shares.log()).sum())
        assert float(effective_rank(found)[h]) == pytest.approx(math.exp(entropy))


def test_ranks_of_known_spectra():
    spectra = torch.tensor([[1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0], [1.0, 0.1, 0.1, 0.1]])
    torch.testing.assert_close(effective_rank(spectra)[:2], torch.tensor([4.0, 1.0]))
    assert 1.0 < float(effective_rank(spectra)[2]) < 4.0
    # The squares of the third are 1, 0.01, 0.01, 0.01: 1 / 1.03 < 0.98 < 1.01 / 1.03.
    assert energy_rank(spectra, share=0.98).tolist() == [4.0, 1.0, 2.0]
    assert energy_rank(spectra, share=0.99).tolist() == [4.0, 1.0, 3.0]


def test_a_rank_one_product_has_rank_one():
    query = drawn(1, 11, 1) * drawn(1, 1, 3, seed=4)
    found = interaction_spectrum(query, drawn(1, 11, 3, seed=5))
    assert float(effective_rank(found)) == pytest.approx(1.0, abs=1e-9)
    assert energy_rank(found).tolist() == [1.0]


def test_weights_without_a_number_have_no_rank_and_spoil_no_other_head():
    query, key = drawn(2, 11, 3), drawn(2, 11, 3, seed=4)
    query[0, 2, 1] = math.nan
    found = interaction_spectrum(query, key)
    torch.testing.assert_close(found[1:], interaction_spectrum(query[1:], key[1:]))
    for rank in (effective_rank(found), energy_rank(found)):
        assert rank.isnan().tolist() == [True, False]


def test_a_change_is_relative_to_all_of_a_heads_vectors():
    before = drawn(2, 3, 5, 7)
    after = before.clone()
    after[:, 1] *= 1.25
    after[:, 2] *= -1.0
    torch.testing.assert_close(
        relative_change(before, after), torch.tensor([0.0, 0.25, 2.0], dtype=torch.float64)
    )
