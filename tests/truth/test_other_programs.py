"""Two programs of one framework that compute the same: the mapping is searched, and a defect is named through the noise."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import lakeprobe  # noqa: E402
from benchmarks.truth.noise import Noise  # noqa: E402
from lakeprobe.compare.run import compare  # noqa: E402

WIDTH, HEADS, LENGTH, TOKENS, BLOCKS = 32, 4, 16, 64, 4


class Apart(nn.Module):
    """Attention with a projection each for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, given):
        return self.out(attend(self.q(given), self.k(given), self.v(given)))


class Fused(nn.Module):
    """The same with one projection."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, given):
        return self.out(attend(*self.qkv(given).chunk(3, -1)))


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), attention()
        self.up, self.activation, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, given):
        given = given + self.attention(self.norm1(given))
        return given + self.down(self.activation(self.up(self.norm2(given))))


class Network(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embedding, self.norm, self.head = (
            nn.Embedding(TOKENS, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, TOKENS),
        )
        self.blocks = nn.Sequential(*(Block(attention) for _ in range(BLOCKS)))

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


def attend(*projected):
    queries, keys, values = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in projected)
    weights = functional.softmax(queries @ keys.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, dim=-1)
    return (weights @ values).transpose(1, 2).flatten(2)


def fused(network):
    """The same network with one projection in each block."""
    other, held = Network(Fused), network.state_dict()
    for name in other.state_dict().keys() - held.keys():
        held[name] = torch.cat([held[name.replace("qkv", part)] for part in "qkv"])
    other.load_state_dict({name: held[name] for name in other.state_dict()})
    return other


def collected(network, run, lake, level):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    tokens = torch.randint(TOKENS, (4, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    with lakeprobe.collect(network, run=run, lake=lake, level=level) as collector:
        for _ in range(2):
            loss = functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            collector.step()


@pytest.mark.parametrize(
    ("level", "cause"),
    [
        ("L0", "Module.blocks.2.norm2.LayerNorm.forward.0"),
        ("L1", "layer_norm.5.forward"),
        ("mix", "layer_norm.5.forward"),
    ],
)
def test_one_projection_for_three(tmp_path, level, cause):
    torch.manual_seed(0)
    network, lake = Network(Apart), tmp_path / "lake"
    equal, wrong = fused(network), fused(network)
    wrong.blocks[2].norm2.eps = 1e-2
    collected(network, "golden", lake, level)
    for other, run in ((equal, "equal"), (wrong, "wrong")):
        with Noise("npu", seed=5):
            collected(other, run, lake, level)

    report = compare("equal", "golden", lake=lake)
    assert {pair.rule.name for pair in report.pairs} == {"cross_framework"}
    compare("wrong", "golden", lake=lake)
    with lakeprobe.open(lake) as opened:
        suspects = opened.sql("SELECT comparison, op FROM suspects WHERE step = 0 AND nth = 1").fetchall()
    assert [(name, op.endswith(cause)) for name, op in suspects] == [("wrong_vs_golden", True)]
