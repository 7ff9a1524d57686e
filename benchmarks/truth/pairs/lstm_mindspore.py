"""The LSTM of lstm_torch in MindSpore: a matrix a gate, operands the other way round, ops.split and Stack."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "forget": r"recurrent|[sS]igmoid|__mul__|__add__",
    "eps": r"scale|LayerNorm\.0",
    "tanh": r"recurrent|[tT]anh|[sS]igmoid",
    "weight": r"recurrent|[mM]at[mM]ul",
    "table": r"[eE]mbedding|Gather",
}


class Recurrent(nn.Cell):
    def __init__(self, size, hidden, defect):
        super().__init__()
        self.defect, self.hidden = defect, hidden
        self.of_input = Parameter(Tensor(np.zeros((size, 4 * hidden), "f4")))
        self.of_state = Parameter(Tensor(np.zeros((hidden, 4 * hidden), "f4")))
        self.shift = Parameter(Tensor(np.zeros(4 * hidden, "f4")))
        self.sigmoid, self.tanh = nn.Sigmoid(), ops.Tanh()

    def construct(self, x, hidden, memory):
        gates = ops.matmul(hidden, self.of_state) + (ops.matmul(x, self.of_input) + self.shift)
        i, f, g, o = ops.split(gates, self.hidden, 1)
        if self.defect == "forget":
            f = f + 1.0
        g = self.sigmoid(g) if self.defect == "tanh" else self.tanh(g)
        memory = self.sigmoid(i) * g + memory * self.sigmoid(f)
        return self.tanh(memory) * self.sigmoid(o), memory


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.recurrent = Recurrent(12, 16, defect)
        self.scale = nn.LayerNorm((16,), epsilon=1e-2 if defect == "eps" else 1e-5)
        self.vocabulary = nn.Dense(16, 50)

    def construct(self, tokens):
        hidden = memory = ops.zeros((tokens.shape[0], 16), self.scale.gamma.dtype)
        outputs = []
        for step in range(5):
            hidden, memory = self.recurrent(self.embedding(tokens[:, step]), hidden, memory)
            outputs.append(hidden)
        return self.vocabulary(self.scale(ops.stack(outputs, 1)))


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """lstm_torch's weights under the names of this model, the cell's transposed, with `defect`."""
    carried = {
        "embedding.embedding_table": weights["words.weight"].copy(),
        "recurrent.of_input": np.ascontiguousarray(weights["cell.inputs.weight"].T),
        "recurrent.of_state": np.ascontiguousarray(weights["cell.states.weight"].T),
        "recurrent.shift": weights["cell.inputs.bias"],
        "scale.gamma": weights["norm.weight"], "scale.beta": weights["norm.bias"],
        "vocabulary.weight": weights["head.weight"], "vocabulary.bias": weights["head.bias"],
    }  # fmt: skip
    if defect == "weight":
        carried["recurrent.of_input"][:, :9] *= 1.5
    if defect == "table":
        carried["embedding.embedding_table"] *= 1.1
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return ops.cross_entropy(model(batch["x"]).reshape(-1, 50), batch["y"][:, :5].reshape(-1))
