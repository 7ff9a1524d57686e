"""Two programs of one framework that compute the same: the mapping is searched, a defect named through the noise."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import lakeprobe  # noqa: E402
from benchmarks.truth.noise import Noise  # noqa: E402
from lakeprobe.compare.run import compare  # noqa: E402

WIDTH, HEADS, LENGTH, TOKENS, BLOCKS = 32, 4, 16, 64, 4


class Attention(nn.Module):
    """With a projection each for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, given):
        return self.out(attend(self.q(given), self.k(given), self.v(given)))


class OneProjection(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, given):
        return self.out(attend(*self.qkv(given).chunk(3, -1)))


class OneOp(Attention):
    def forward(self, given):
        queries, keys, values = map(heads, (self.q(given), self.k(given), self.v(given)))
        together = functional.scaled_dot_product_attention(queries, keys, values)
        return self.out(together.transpose(1, 2).flatten(2))


class Feedforward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, given):
        return self.down(functional.silu(self.gate(given)) * self.up(given))


class OtherOrder(Feedforward):
    def forward(self, given):
        raised = self.up(given)
        return self.down(functional.silu(self.gate(given)) * raised)


class Block(nn.Module):
    def __init__(self, attention, feedforward, is_turned=False):
        super().__init__()
        self.is_turned = is_turned
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.feedforward = attention(), feedforward()

    def forward(self, given):
        given = given + self.attention(self.norm1(given))
        added = self.feedforward(self.norm2(given))
        return added + given if self.is_turned else given + added


class Network(nn.Module):
    def __init__(self, attention=Attention, feedforward=Feedforward, is_turned=False, is_recomputed=False):
        super().__init__()
        self.is_recomputed = is_recomputed
        self.embedding, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.Sequential(*(Block(attention, feedforward, is_turned) for _ in range(BLOCKS)))

    def forward(self, tokens):
        given = self.embedding(tokens)
        for block in self.blocks:
            given = checkpoint(block, given, use_reentrant=False) if self.is_recomputed else block(given)
        return self.head(self.norm(given))


def heads(projected):
    return projected.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def attend(*projected):
    queries, keys, values = map(heads, projected)
    weights = functional.softmax(queries @ keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, dim=-1)
    return (weights @ values).transpose(1, 2).flatten(2)


def like(network, made):
    """The network `made` with the parameters of `network`."""
    held = network.state_dict()
    for name in made.state_dict().keys() - held.keys():
        held[name] = torch.cat([held[name.replace("qkv", part)] for part in "qkv"])
    made.load_state_dict({name: held[name] for name in made.state_dict()})
    return made


def collected(network, run, lake, level, **settings):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, **settings)
    tokens = torch.randint(TOKENS, (4, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    with lakeprobe.collect(network, run=run, lake=lake, level=level) as collector:
        for _ in range(2):
            loss = functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            collector.step()


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(partial(Network, attention=OneProjection), id="one projection for three"),
        pytest.param(partial(Network, attention=OneOp), id="attention in one op"),
        pytest.param(partial(Network, feedforward=OtherOrder), id="two layers in another order"),
        pytest.param(partial(Network, is_turned=True), id="terms in another order"),
        pytest.param(partial(Network, is_recomputed=True), id="recomputed"),
    ],
)
def test_what_computes_the_same_is_equal_and_a_defect_in_it_is_named(tmp_path, made, level):
    torch.manual_seed(0)
    network, lake = Network(), tmp_path / "lake"
    equal, wrong = like(network, made()), like(network, made())
    wrong.blocks[2].norm2.eps = 1e-2
    collected(network, "golden", lake, level, foreach=False)
    for other, run in ((equal, "equal"), (wrong, "wrong")):
        with Noise("npu", seed=5):
            collected(other, run, lake, level, foreach=True)  # records no ops of the optimizer

    rules = {pair.rule.name for run in ("equal", "wrong") for pair in compare(run, "golden", lake=lake).pairs}
    with lakeprobe.open(lake) as opened:
        suspects = opened.sql("SELECT comparison, op FROM suspects WHERE step = 0 AND nth = 1").fetchall()
        assert not opened.comparison("equal_vs_golden").first_difference().differs
    cause = "Module.blocks.2.norm2.LayerNorm.forward.0" if level == "L0" else "Functional.layer_norm.5.forward"
    assert suspects == [("wrong_vs_golden", cause)]
    is_told_by_names = equal.is_recomputed or equal.blocks[0].is_turned
    assert rules == {"same_framework" if is_told_by_names else "cross_framework"}
