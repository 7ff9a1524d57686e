"""The model of window_torch in MindSpore: heads first, windows as two axes, a shift by pieces, norms in steps."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "scale": r"blocks\.0|[mM]ul|__mul__|[mM]at[mM]ul|truediv|Div",
    "mask": r"blocks\.1|__add__.*stages\.1\.attn|[wW]here|[sS]elect|[mM]asked|[sS]oftmax",
    "order": r"blocks\.0|[tT]ranspose|[rR]eshape|[mM]at[mM]ul",
    "act": r"blocks\.2|[gG]elu|[gG]e[lL][uU]",
    "weight": r"join|[dD]ense|[mM]at[mM]ul",
}


def of_zeros(*shape):
    """Return a parameter that is filled by `carry`."""
    return Parameter(Tensor(np.zeros(shape, "f4")))


class Norm(nn.Cell):
    """A layer norm of the last axis."""

    def __init__(self, hidden):
        super().__init__()
        self.times, self.plus = of_zeros(hidden), of_zeros(hidden)

    def construct(self, x):
        middle = x - x.mean(-1, keep_dims=True)
        spread = ops.sqrt((middle * middle).mean(-1, keep_dims=True) + 1e-5)
        return middle / spread * self.times + self.plus


def moved(x, by, axis):
    """Return `x` with its first `by` entries of `axis` behind the others."""
    head, tail = ops.split(x, [by, x.shape[axis] - by], axis)
    return ops.cat((tail, head), axis)


class Block(nn.Cell):
    """Windows of 4 x 4 in a square of `side`."""

    def __init__(self, hidden, heads, side, shift, defect=None):
        super().__init__()
        self.heads, self.head, self.side, self.shift, self.defect = heads, hidden // heads, side, shift, defect
        self.before, self.after = Norm(hidden), Norm(hidden)
        self.of_query, self.of_key, self.of_value, self.out = (nn.Dense(hidden, hidden) for _ in range(4))
        self.wide, self.narrow = nn.Dense(hidden, 2 * hidden), nn.Dense(2 * hidden, hidden)
        self.offsets = of_zeros(heads, 7, 7)
        down, across = (each.reshape(-1) for each in np.meshgrid(np.arange(4), np.arange(4), indexing="ij"))
        self.down = Tensor((down[:, None] - down[None] + 3).astype("i4"))
        self.across = Tensor((across[:, None] - across[None] + 3).astype("i4"))
        if shift:
            band = np.repeat([0, 1, 2], [side - 4, 4 - shift, shift])
            part = (band[:, None] * 3 + band[None]).reshape(side // 4, 4, side // 4, 4).transpose(0, 2, 1, 3)
            part = part.reshape(-1, 16)
            self.apart = Tensor(part[:, :, None] != part[:, None, :])

    def in_heads(self, x):
        """Return (heads, batch, windows, 16, head)."""
        batch, count = x.shape[0], self.side // 4
        x = x.reshape(batch, count, 4, count, 4, self.heads, self.head)
        return x.transpose(5, 0, 1, 3, 2, 4, 6).reshape(self.heads, batch, count * count, 16, self.head)

    def attention(self, x):
        batch, count = x.shape[0], self.side // 4
        query, key, value = (self.in_heads(each(x)) for each in (self.of_query, self.of_key, self.of_value))
        scores = ops.matmul(query, key.swapaxes(-1, -2)) / (4.0 if self.defect == "scale" else self.head**0.5)
        bias = self.offsets[:, self.down, self.across]
        if self.defect == "order":
            bias = bias.swapaxes(-1, -2)
        scores = scores + bias.reshape(self.heads, 1, 1, 16, 16)
        if self.shift and self.defect != "mask":
            scores = ops.masked_fill(scores, self.apart, -1e9)
        mixed = ops.matmul(ops.softmax(scores, -1), value)
        mixed = mixed.reshape(self.heads, batch, count, count, 4, 4, self.head).transpose(1, 2, 4, 3, 5, 0, 6)
        return self.out(mixed.reshape(batch, self.side, self.side, -1))

    def construct(self, x):
        mixed = self.before(x)
        if self.shift:
            mixed = moved(moved(mixed, self.shift, 1), self.shift, 2)
        mixed = self.attention(mixed)
        if self.shift:
            mixed = moved(moved(mixed, self.side - self.shift, 2), self.side - self.shift, 1)
        x = mixed + x
        wide = self.wide(self.after(x))
        wide = ops.gelu(wide, "tanh" if self.defect == "act" else "none")
        return self.narrow(wide) + x


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        planted = {"scale": 0, "mask": 1, "order": 0, "act": 2}
        sizes = ((16, 2, 8, 0), (16, 2, 8, 2), (32, 4, 4, 0))
        self.first, self.start = nn.Dense(12, 16), Norm(16)
        self.blocks = nn.CellList([
            Block(*size, defect if planted.get(defect) == number else None) for number, size in enumerate(sizes)
        ])  # fmt: skip
        self.joined, self.join = Norm(64), nn.Dense(64, 32, has_bias=False)
        self.end, self.classes = Norm(32), nn.Dense(32, 10)

    def construct(self, images):
        batch = images.shape[0]
        x = images.reshape(batch, 3, 8, 2, 8, 2).transpose(0, 2, 4, 1, 3, 5).reshape(batch, 8, 8, 12)
        x = self.start(self.first(x))
        for block in self.blocks[:2]:
            x = block(x)
        x = x.reshape(batch, 4, 2, 4, 2, 16).transpose(0, 1, 3, 4, 2, 5).reshape(batch, 4, 4, 64)
        x = self.blocks[2](self.join(self.joined(x)))
        return self.classes(self.end(x).mean((1, 2)))


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """window_torch's weights under the names of this model, query, key and value apart, with `defect`."""
    carried = {
        "first.weight": weights["embed.weight"].reshape(16, 12), "first.bias": weights["embed.bias"],
        "join.weight": weights["merge.reduction.weight"],
        "classes.weight": weights["head.weight"], "classes.bias": weights["head.bias"],
    }  # fmt: skip
    norms = {"start": "norm0", "joined": "merge.norm", "end": "norm"}
    for block in range(3):
        ours, theirs = f"blocks.{block}", f"stages.{block}"
        norms |= {f"{ours}.before": f"{theirs}.norm1", f"{ours}.after": f"{theirs}.norm2"}
        table = weights[f"{theirs}.attn.table"]
        carried[f"{ours}.offsets"] = np.ascontiguousarray(table.reshape(7, 7, -1).transpose(2, 0, 1))
        for part in ("weight", "bias"):
            pieces = np.split(weights[f"{theirs}.attn.qkv.{part}"], 3)
            carried |= {f"{ours}.of_{name}.{part}": each
                        for name, each in zip(("query", "key", "value"), pieces, strict=True)}  # fmt: skip
            for name, other in (("out", "attn.proj"), ("wide", "mlp.0"), ("narrow", "mlp.2")):
                carried[f"{ours}.{name}.{part}"] = weights[f"{theirs}.{other}.{part}"]
    for ours, theirs in norms.items():
        carried[f"{ours}.times"], carried[f"{ours}.plus"] = weights[f"{theirs}.weight"], weights[f"{theirs}.bias"]
    if defect == "weight":
        carried["join.weight"] = np.concatenate((carried["join.weight"][:3] * 1.5, carried["join.weight"][3:]))
    return carried


def loss(model, batch):
    """Cross entropy with smoothed labels, in single steps."""
    chances = ops.log_softmax(model(batch["x"]), -1)
    wanted = ops.one_hot(batch["y"], 10, Tensor(0.91, ms.float32), Tensor(0.01, ms.float32))
    return -(wanted * chances).sum(-1).mean()
