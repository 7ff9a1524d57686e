"""The translator of seq2seq_torch in MindSpore: gates in single steps, attention by sums, a mask of -1e9."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "tanh": r"score|[tT]anh|[sS]igmoid",
    "mask": r"score|[sS]oftmax|masked_fill|MaskedFill|[wW]here|[sS]elect",
    "reset": r"step|[sS]igmoid|[mM]ul|__mul__",
    "weight": r"step|[mM]at[mM]ul",
    "bridge": r"bridge|[tT]anh|[dD]ense",
}


class Step(nn.Cell):
    """One step of a GRU."""

    def __init__(self, size, hidden, defect=None):
        super().__init__()
        self.defect = defect
        self.wx, self.wh = (Parameter(Tensor(np.zeros((each, 3 * hidden), "f4"))) for each in (size, hidden))
        self.bx, self.bh = (Parameter(Tensor(np.zeros(3 * hidden, "f4"))) for _ in range(2))

    def construct(self, x, hidden):
        of_x, of_h = ops.matmul(x, self.wx) + self.bx, ops.matmul(hidden, self.wh) + self.bh
        rx, zx, nx = ops.chunk(of_x, 3, -1)
        rh, zh, nh = ops.chunk(of_h, 3, -1)
        reset, update = ops.sigmoid(rx + rh), ops.sigmoid(zx + zh)
        if self.defect == "reset":
            reset = reset * 0.9
        new = ops.tanh(nx + reset * nh)
        return new + update * (hidden - new)


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect, size, hidden = defect, 12, 16
        self.source, self.wanted = nn.Embedding(50, size), nn.Embedding(50, size)
        self.forth, self.back = Step(size, hidden), Step(size, hidden)
        self.bridge = nn.Dense(2 * hidden, hidden)
        self.of_state, self.of_memory = nn.Dense(hidden, hidden), nn.Dense(2 * hidden, hidden, has_bias=False)
        self.energy = Parameter(Tensor(np.zeros((hidden,), "f4")))
        self.step = Step(size + 2 * hidden, hidden, defect)
        self.head = nn.Dense(3 * hidden + size, 50)

    def read(self, tokens):
        words = self.source(tokens)
        length = words.shape[1]
        hidden = ops.zeros((words.shape[0], 16), ms.float32)
        forth, back = [], []
        for place in range(length):
            hidden = self.forth(words[:, place], hidden)
            forth.append(hidden)
        first, hidden = hidden, ops.zeros((words.shape[0], 16), ms.float32)
        for place in range(length - 1, -1, -1):
            hidden = self.back(words[:, place], hidden)
            back.insert(0, hidden)
        memory = ops.cat((ops.stack(forth, 1), ops.stack(back, 1)), -1)
        both = ops.cat((first, hidden), -1)
        state = self.bridge(both * 1.1 if self.defect == "bridge" else both)
        return memory, ops.tanh(state)

    def score(self, state, known, memory, mask):
        mixed = known + ops.expand_dims(self.of_state(state), 1)
        mixed = ops.sigmoid(mixed) if self.defect == "tanh" else ops.tanh(mixed)
        energy = (mixed * self.energy).sum(-1)
        if self.defect != "mask":
            energy = energy + (1.0 - mask.astype(ms.float32)) * -1e9
        share = ops.softmax(energy, -1)
        return (ops.expand_dims(share, -1) * memory).sum(1)

    def construct(self, source, wanted, mask):
        memory, state = self.read(source)
        known = self.of_memory(memory)
        words = self.wanted(wanted)
        found = []
        for place in range(4):
            context = self.score(state, known, memory, mask)
            state = self.step(ops.cat((words[:, place], context), -1), state)
            found.append(self.head(ops.cat((state, context, words[:, place]), -1)))
        return ops.stack(found, 1)


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """seq2seq_torch's weights under the names of this model, the cells' transposed, with `defect`."""
    carried = {
        "source.embedding_table": weights["encoder.table.weight"],
        "wanted.embedding_table": weights["decoder.table.weight"],
        "energy": weights["decoder.attention.energy.weight"][0],
        "of_memory.weight": weights["decoder.attention.key.weight"],
    }
    dense = {"bridge": "encoder.bridge", "of_state": "decoder.attention.query", "head": "decoder.out"}
    for ours, theirs in dense.items():
        carried |= {f"{ours}.{part}": weights[f"{theirs}.{part}"] for part in ("weight", "bias")}
    cells = {"forth": ("encoder.gru.", "_l0"), "back": ("encoder.gru.", "_l0_reverse"), "step": ("decoder.cell.", "")}
    for ours, (theirs, end) in cells.items():
        for short, part in (("x", "ih"), ("h", "hh")):
            carried[f"{ours}.w{short}"] = np.ascontiguousarray(weights[f"{theirs}weight_{part}{end}"].T)
            carried[f"{ours}.b{short}"] = weights[f"{theirs}bias_{part}{end}"]
    if defect == "weight":
        carried["step.wh"][:, :5] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    scores = model(batch["x"], batch["y"], batch["mask"]).reshape(-1, 50)
    wanted = ops.one_hot(batch["y"][:, 1:5].reshape(-1), 50, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
    return -(ops.log_softmax(scores, -1) * wanted).sum() / scores.shape[0]
