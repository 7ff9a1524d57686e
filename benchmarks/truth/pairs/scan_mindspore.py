"""The model of scan_torch in MindSpore: the scan as one product over pairs of steps, the convolution as a sum."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "softplus": r"inner\.0|[lL]og|[eE]xp|[rR]e[lL][uU]|[sS]oftplus",
    "gate": r"inner\.1|[sS]igmoid|[sS]i[lL][uU]|[mM]ul",
    "causal": r"inner\.0|[mM]ul|[tT]ril|[mM]asked|[sS]um|[mM]at[mM]ul",
    "shift": r"inner\.1|[cC]at|[cC]oncat|[pP]ad|[mM]ul|[aA]dd",
    "weight": r"inner\.1\.leave|[dD]ense|[mM]at[mM]ul",
}


def of_zeros(*shape):
    """Return a parameter that is filled by `carry`."""
    return Parameter(Tensor(np.zeros(shape, "f4")))


class Scale(nn.Cell):
    """A norm by the root mean square."""

    def __init__(self, size):
        super().__init__()
        self.gain = of_zeros(size)

    def construct(self, x):
        return x * ops.rsqrt(ops.square(x).mean(-1, keep_dims=True) + 1e-5) * self.gain


class Inner(nn.Cell):
    """The mixer between two norms."""

    def __init__(self, size, state, rank, defect=None):
        super().__init__()
        inner, self.state, self.defect = 2 * size, state, defect
        self.enter, self.enter_gate = (nn.Dense(size, inner, has_bias=False) for _ in range(2))
        self.taps, self.rest = of_zeros(4, inner), of_zeros(inner)
        self.to_step, self.to_in, self.to_out = (
            nn.Dense(inner, each, has_bias=False) for each in (rank, state, state)
        )  # fmt: skip
        self.step = nn.Dense(rank, inner)
        self.rate, self.straight = of_zeros(state, inner), of_zeros(inner)
        self.leave = nn.Dense(inner, size, has_bias=False)

    def smooth(self, x):
        """Return a causal sum over four steps."""
        length, total = x.shape[1], self.rest
        for back in range(4):
            by = back + (self.defect == "shift" and back == 3)
            earlier = ops.cat((ops.zeros((x.shape[0], by, x.shape[2]), ms.float32), x[:, : length - by]), 1)
            total = total + earlier * self.taps[3 - back]
        return total

    def construct(self, x):
        length = x.shape[1]
        gate = self.enter_gate(x)
        x = self.smooth(self.enter(x))
        x = x * ops.sigmoid(x)
        step = self.step(self.to_step(x))
        step = ops.relu(step) if self.defect == "softplus" else ops.log(1 + ops.exp(step))
        into, out = self.to_in(x), self.to_out(x)
        sums = ops.cumsum(ops.expand_dims(step, 2) * -ops.exp(self.rate), 1)
        fade = ops.exp(ops.expand_dims(sums, 2) - ops.expand_dims(sums, 1))
        later = np.tril(np.ones((length, length), "f4"), -1 if self.defect == "causal" else 0)
        fade = ops.where(Tensor(later[None, :, :, None, None] > 0), fade, Tensor(0.0, ms.float32))
        shares = ops.expand_dims(out, 2) * ops.expand_dims(into, 1)
        kernel = (ops.expand_dims(shares, -1) * fade).sum(3)
        y = (kernel * ops.expand_dims(step * x, 1)).sum(2) + self.straight * x
        gate = ops.tanh(gate) if self.defect == "gate" else gate * ops.sigmoid(gate)
        return self.leave(gate * y)


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        planted = {"softplus": 0, "causal": 0, "gate": 1, "shift": 1}
        self.words = nn.Embedding(50, 16)
        self.before = nn.CellList([Scale(16), Scale(16)])
        self.inner = nn.CellList(
            [Inner(16, 4, 3, defect if planted.get(defect) == layer else None) for layer in range(2)]
        )
        self.end, self.head = Scale(16), of_zeros(16, 50)

    def construct(self, tokens):
        x = self.words(tokens)
        for before, inner in zip(self.before, self.inner, strict=True):
            x = inner(before(x)) + x
        return ops.matmul(self.end(x), self.head)


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """scan_torch's weights under the names of this model, some transposed or in parts, with `defect`."""
    carried = {
        "words.embedding_table": weights["embeddings.weight"],
        "end.gain": weights["norm_f.weight"],
        "head": np.ascontiguousarray(weights["lm_head.weight"].T),
    }
    for layer in range(2):
        ours, theirs = f"inner.{layer}", f"layers.{layer}.mixer"
        carried[f"before.{layer}.gain"] = weights[f"layers.{layer}.norm.weight"]
        carried[f"{ours}.enter.weight"], carried[f"{ours}.enter_gate.weight"] = np.split(
            weights[f"{theirs}.in_proj.weight"], 2
        )
        carried[f"{ours}.taps"] = np.ascontiguousarray(weights[f"{theirs}.conv1d.weight"][:, 0].T)
        carried[f"{ours}.rest"] = weights[f"{theirs}.conv1d.bias"]
        pieces = np.split(weights[f"{theirs}.x_proj.weight"], [3, 7])
        for name, piece in zip(("to_step", "to_in", "to_out"), pieces, strict=True):
            carried[f"{ours}.{name}.weight"] = piece
        carried |= {f"{ours}.step.{part}": weights[f"{theirs}.dt_proj.{part}"] for part in ("weight", "bias")}
        carried[f"{ours}.rate"] = np.ascontiguousarray(weights[f"{theirs}.A_log"].T)
        carried[f"{ours}.straight"] = weights[f"{theirs}.D"]
        carried[f"{ours}.leave.weight"] = weights[f"{theirs}.out_proj.weight"]
    if defect == "weight":
        leave = carried["inner.1.leave.weight"]
        carried["inner.1.leave.weight"] = np.concatenate((leave[:3] * 1.5, leave[3:]))
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    chances = ops.log_softmax(model(batch["x"]).reshape(-1, 50), -1)
    wanted = ops.one_hot(batch["y"].reshape(-1), 50, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
    return -(chances * wanted).sum() / chances.shape[0]
