import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from runner.evaluate import SplitLoss, split_loss, windows

VOCABULARY = 11


class Prefix(nn.Module):
    """A toy model whose prediction depends on the whole prefix inside its window, in order."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.table = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=generator))
        self.drop = nn.Dropout(0.9)

    def forward(self, ids_bt):
        decay = 0.7 ** torch.arange(ids_bt.shape[1])
        weights = torch.tril((decay[:, None] / decay[None, :]).float())
        return self.drop(weights @ self.table[ids_bt])


class Constant(nn.Module):
    """Predicts the same logits everywhere and keeps what it was asked."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.as_tensor(logits)
        self.asked = []

    def forward(self, ids_bt):
        self.asked.append((ids_bt.shape, torch.is_grad_enabled(), self.training))
        return self.logits.expand(*ids_bt.shape, -1)


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(3).integers(0, VOCABULARY, 1009).astype(np.uint16)


def one_by_one(model, ids, window, stride):
    """Each target from the first window that reaches it, alone, in float64."""
    model.eval()
    total = 0.0
    for target in range(1, len(ids)):
        start = 0
        while start + window < target:
            start += stride
        prefix = torch.from_numpy(ids[start:target].astype(np.int64))[None]
        with torch.no_grad():
            logits = model(prefix)[0, -1].double()
        total -= float(torch.log_softmax(logits, -1)[int(ids[target])])
    return total


@pytest.mark.parametrize("n_tokens", [2, 3, 13, 97])
@pytest.mark.parametrize(
    ("window", "stride"), [(1, 1), (7, 7), (7, 1), (7, 3), (13, 5), (96, 96), (97, 2), (101, 101)]
)
def test_the_loss_is_that_of_a_loop_over_single_targets(ids, n_tokens, window, stride):
    model, part = Prefix(), ids[:n_tokens]
    loss = split_loss(model, part, window=window, stride=stride, batch=3)
    assert loss.n_scored == n_tokens - 1
    assert loss.total_nats == pytest.approx(one_by_one(model, part, window, stride), rel=1e-6)


def test_the_stride_matters_and_is_the_window_by_default(ids):
    model = Prefix()
    default = split_loss(model, ids, window=7, batch=5)
    assert default == split_loss(model, ids, window=7, stride=7, batch=5)
    assert (default.window, default.stride) == (7, 7)
    sliding = split_loss(model, ids, window=7, stride=1, batch=5)
    assert abs(sliding.loss_nats - default.loss_nats) > 1e-3


@pytest.mark.parametrize("stride", [31, 7])
def test_batches_change_the_last_bits_at_most(ids, stride):
    model = Prefix()
    losses = [split_loss(model, ids, window=31, stride=stride, batch=b) for b in (1, 2, 5, 997)]
    for loss in losses[1:]:
        assert loss.n_scored == losses[0].n_scored
        assert loss.total_nats == pytest.approx(losses[0].total_nats, rel=1e-6)


@given(
    n_tokens=st.integers(2, 300),
    window=st.integers(1, 60),
    stride=st.integers(1, 60),
)
def test_windows_score_every_target_once_with_the_context_they_promise(n_tokens, window, stride):
    stride = min(stride, window)
    scored = []
    for k, span in enumerate(windows(n_tokens, window, stride)):
        assert span.start == k * stride
        assert span.stop == min(span.start + window, n_tokens - 1)
        assert span.first - span.start >= (1 if k == 0 else window - stride + 1)
        assert span.first <= span.stop
        scored += range(span.first, span.stop + 1)
    assert scored == list(range(1, n_tokens))


def test_windows_of_a_published_length_lose_no_target():
    # Windows of 1024 tokens without an overlap score 287,363 of these; ours overlap by one.
    spans = list(windows(287_644, 1024))
    assert sum(span.stop - span.first + 1 for span in spans) == 287_643
    assert len(spans) == math.ceil(287_643 / 1024)


@pytest.mark.parametrize(
    ("n_tokens", "window", "stride", "sentence"),
    [
        (97, 7, 8, r"the stride must be from 1 to the window \(7\), not 8"),
        (97, 7, 0, r"the stride must be from 1 to the window \(7\), not 0"),
        (97, 0, None, r"the stride must be from 1 to the window \(0\), not 0"),
        (1, 7, 7, "a split of 1 tokens has no token to predict"),
        (0, 7, 7, "a split of 0 tokens has no token to predict"),
    ],
)
def test_windows_that_cannot_score_everything_once_are_refused(n_tokens, window, stride, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(windows(n_tokens, window, stride))
    with pytest.raises(ValueError, match=sentence):
        split_loss(Prefix(), np.zeros(n_tokens, int), window=window, stride=stride, batch=1)


def test_a_uniform_model_has_the_figures_of_the_formulas(ids):
    loss = split_loss(Constant(torch.zeros(VOCABULARY)), ids, window=31, batch=4)
    assert loss.loss_nats == pytest.approx(math.log(VOCABULARY), rel=1e-7)
    assert loss.ppl == pytest.approx(VOCABULARY, rel=1e-6)
    assert loss.bits_per_byte(4 * 1008) == pytest.approx(math.log2(VOCABULARY) / 4, rel=1e-7)
    assert loss.word_ppl(504) == pytest.approx(VOCABULARY**2, rel=1e-6)


def test_published_conversions_of_the_raw_wikitext_test_split():
    # 286,221 GPT-2 tokens, 245,569 words, 1,290,590 bytes: a token perplexity of 25 is a word
    # perplexity of 42.6 and log2(25) / 4.509 bits per byte.
    loss = SplitLoss(286_221 * math.log(25), 286_221, 1024, 1024)
    assert loss.ppl == pytest.approx(25)
    assert round(loss.word_ppl(245_569), 1) == 42.6
    assert loss.bits_per_byte(1_290_590) == pytest.approx(math.log2(25) / 4.509, rel=1e-4)


def test_the_sum_is_in_float64_over_float32_losses():
    ids = np.zeros(200_003, np.uint16)
    logits = torch.tensor([0.1, 0.7, -0.3])
    single = float(-torch.log_softmax(logits, -1)[0])
    loss = split_loss(Constant(logits), ids, window=1009, batch=16)
    assert loss.total_nats == pytest.approx(single * 200_002, rel=1e-12)


def test_half_precision_logits_are_scored_in_float32():
    logits = torch.tensor([0.1, 7.0, -0.3], dtype=torch.bfloat16)
    loss = split_loss(Constant(logits), np.zeros(98, np.uint16), window=97, batch=1)
    assert loss.loss_nats == float(-torch.log_softmax(logits.float(), -1)[0])


def test_autocast_reaches_the_model_and_no_more(ids):
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, 7)
            self.head = nn.Linear(7, VOCABULARY)
            self.seen = set()

        def forward(self, ids_bt):
            logits_btv = self.head(self.embed(ids_bt))
            self.seen.add(logits_btv.dtype)
            return logits_btv

    model = Linear()
    full = split_loss(model, ids, window=31, batch=4)
    assert model.seen == {torch.float32}
    half = split_loss(model, ids, window=31, batch=4, autocast=torch.bfloat16)
    assert model.seen == {torch.float32, torch.bfloat16}
    assert half.loss_nats == pytest.approx(full.loss_nats, rel=1e-2)
    assert not torch.is_autocast_enabled("cpu")


def test_nothing_is_padded_and_nothing_needs_a_gradient(ids):
    model = Constant(torch.zeros(VOCABULARY, requires_grad=True))
    split_loss(model, ids[:100], window=31, batch=2)
    shapes, grad_enabled, training = zip(*model.asked, strict=True)
    assert [tuple(shape) for shape in shapes] == [(2, 31), (1, 31), (1, 6)]
    assert not any(grad_enabled)
    assert not any(training)
    assert model.logits.grad is None


@pytest.mark.parametrize("fails", [False, True])
def test_every_module_gets_its_mode_back(ids, fails):
    model = nn.Sequential(
        Prefix(), nn.Dropout(0.5), nn.Linear(5 if fails else VOCABULARY, VOCABULARY)
    )
    model.train()
    model[1].eval()
    modes = [module.training for module in model.modules()]
    if fails:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            split_loss(model, ids, window=31, batch=2)
    else:
        split_loss(model, ids, window=31, batch=2)
    assert [module.training for module in model.modules()] == modes
    assert len(set(modes)) == 2
    assert torch.is_grad_enabled()


def test_no_random_number_is_drawn(ids):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    split_loss(Prefix().train(), ids, window=31, batch=2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_returned_as_it_is(bad):
    loss = split_loss(Constant([bad, 0.0]), np.zeros(98, np.uint16), window=31, batch=2)
    assert not math.isfinite(loss.total_nats)
    assert not math.isfinite(loss.ppl)
    assert not math.isfinite(loss.bits_per_byte(98))


def test_a_perplexity_too_large_for_a_float_is_infinite():
    loss = split_loss(Constant([-1e4, 0.0]), np.zeros(98, np.uint16), window=31, batch=2)
    assert loss.loss_nats == pytest.approx(1e4)
    assert loss.ppl == math.inf
