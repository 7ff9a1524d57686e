"""A model in plain ops, as on a GPU, against one in the fused ops of Ascend: they are equal, and a defect is named."""

import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import lakeprobe  # noqa: E402
from benchmarks.truth.noise import Noise  # noqa: E402
from lakeprobe.checks.pytorch import fusion  # noqa: E402
from lakeprobe.compare.run import compare  # noqa: E402

WIDTH, HEADS, LENGTH, TOKENS, BLOCKS = 64, 8, 16, 128, 4
SIZE = WIDTH // HEADS


def fused(name, *given, **others):
    """The fused op in one call. Inside it works in float32, whatever it takes and gives."""
    low = given[0].dtype
    wide = [each.float() if isinstance(each, torch.Tensor) and each.is_floating_point() else each for each in given]
    made = fusion.find(name)(*wide, **others)
    return tuple(each.to(low) for each in made) if isinstance(made, tuple) else made.to(low)


@pytest.fixture
def torch_npu(monkeypatch):
    """What stands in for Ascend's extension of PyTorch, whose calls are recorded."""
    made = ModuleType("torch_npu")
    for name in ("npu_rms_norm", "npu_rotary_mul", "npu_swiglu", "npu_fusion_attention"):
        setattr(made, name, lambda *given, _name=name, **others: fused(_name, *given, **others))
    monkeypatch.setitem(sys.modules, "torch_npu", made)
    return made


class Norm(nn.Module):
    def __init__(self, ascend):
        super().__init__()
        self.ascend, self.eps = ascend, 1e-5
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, given):
        if self.ascend:
            return self.ascend.npu_rms_norm(given, self.weight, epsilon=self.eps)[0]
        wide = given.float()
        size = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * size).to(given.dtype)


def turned(given):
    first, second = given.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Attention(nn.Module):
    def __init__(self, ascend):
        super().__init__()
        self.ascend, self.ahead = ascend, 1
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, given):
        queries, keys, values = (
            each(given).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        angles = torch.outer(torch.arange(LENGTH), 1e4 ** -(torch.arange(0, SIZE, 2) / SIZE)).repeat(1, 2)
        cosine, sine = (each.to(given.dtype)[None, None] for each in (angles.cos(), angles.sin()))
        if self.ascend:
            queries, keys = (self.ascend.npu_rotary_mul(each, cosine, sine) for each in (queries, keys))
            mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(self.ahead)
            attend = self.ascend.npu_fusion_attention
            mixed = attend(queries, keys, values, HEADS, "BNSD", atten_mask=mask, scale=SIZE**-0.5)
        else:
            queries, keys = (each * cosine + turned(each) * sine for each in (queries, keys))
            scores = queries @ keys.transpose(2, 3) * SIZE**-0.5
            mask = torch.full((LENGTH, LENGTH), torch.finfo(scores.dtype).min, dtype=scores.dtype).triu(self.ahead)
            mixed = functional.softmax(scores + mask, dim=-1, dtype=torch.float32).to(given.dtype) @ values
        return self.out(mixed.transpose(1, 2).flatten(2))


class Feedforward(nn.Module):
    def __init__(self, ascend):
        super().__init__()
        self.ascend = ascend
        self.gate, self.up, self.down = (
            nn.Linear(*size, bias=False) for size in ((WIDTH, 96), (WIDTH, 96), (96, WIDTH))
        )

    def forward(self, given):
        if self.ascend:
            return self.down(self.ascend.npu_swiglu(torch.cat([self.gate(given), self.up(given)], -1)))
        return self.down(functional.silu(self.gate(given)) * self.up(given))


class Block(nn.Module):
    def __init__(self, norm, rest):
        super().__init__()
        self.norm1, self.attention = Norm(norm), Attention(rest)
        self.norm2, self.feedforward = Norm(norm), Feedforward(rest)

    def forward(self, given):
        given = given + self.attention(self.norm1(given))
        return given + self.feedforward(self.norm2(given))


class Network(nn.Module):
    """Its norms, and the rest of it, are in fused ops of a `torch_npu`, or in plain ops."""

    def __init__(self, norm=None, rest=None):
        super().__init__()
        self.embedding, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
        self.blocks, self.norm = nn.Sequential(*(Block(norm, rest) for _ in range(BLOCKS))), Norm(norm)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


def collected(network, run, lake, level):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    tokens = torch.randint(TOKENS, (4, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    with lakeprobe.collect(network, run=run, lake=lake, level=level) as collector:
        loss = functional.cross_entropy(network(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        collector.step()


NORM, ATTENTION = "NPU.npu_rms_norm.5.forward", "NPU.npu_fusion_attention.2.forward"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("dtype", "level", "fused_parts", "causes"),
    [
        (torch.float32, "mix", {"norm", "rest"}, (NORM, ATTENTION)),
        (torch.bfloat16, "L1", {"norm", "rest"}, (NORM, ATTENTION)),
        (torch.bfloat16, "mix", {"norm"}, (NORM, "Tensor.__add__.12.forward")),
        (torch.bfloat16, "L1", {"rest"}, ("Tensor.__add__.10.forward", ATTENTION)),
    ],
    ids=["float32", "bfloat16", "norms alone", "all but norms"],
)
def test_fused_ops_are_equal_and_a_defect_in_them_is_named(tmp_path, torch_npu, dtype, level, fused_parts, causes):
    torch.manual_seed(0)
    golden, lake = Network(), tmp_path / "lake"
    for parameter in golden.parameters():
        parameter.data.mul_(1.5 if parameter.dim() > 1 else 1)
    runs = {name: Network(**dict.fromkeys(fused_parts, torch_npu)) for name in ("equal", "epsilon", "mask")}
    for network in runs.values():
        network.load_state_dict(golden.state_dict())
    runs["epsilon"].blocks[2].norm2.eps = 0.1
    runs["mask"].blocks[2].attention.ahead = 2
    collected(golden.to(dtype), "golden", lake, level)
    for run, network in runs.items():
        with Noise("npu" if dtype is torch.float32 else "bf16", seed=5):
            collected(network.to(dtype), run, lake, level)

    rules = {pair.rule.name for run in runs for pair in compare(run, "golden", lake=lake).pairs}
    with lakeprobe.open(lake) as opened:
        first = opened.sql("SELECT op FROM suspects WHERE nth = 1 ORDER BY comparison").fetchall()
        assert not opened.comparison("equal_vs_golden").first_difference().differs
    assert rules == {"cross_framework"}
    assert tuple(op for (op,) in first) == causes
