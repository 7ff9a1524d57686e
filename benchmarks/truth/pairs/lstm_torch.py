"""A language model with an LSTM cell by hand in PyTorch: gates from two fused linears, chunked."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "forget": r"cell|sigmoid|__mul__|__add__",
    "eps": r"norm|layer_norm\.0",
    "tanh": r"cell|tanh|sigmoid",
    "weight": r"cell\.inputs|linear\.0\.",
    "table": r"embedding|words",
}


class Cell(nn.Module):
    def __init__(self, size, hidden, defect):
        super().__init__()
        self.defect = defect
        self.inputs = nn.Linear(size, 4 * hidden)
        self.states = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x, state):
        hidden, memory = state
        i, f, g, o = (self.inputs(x) + self.states(hidden)).chunk(4, 1)
        if self.defect == "forget":
            f = f + 1.0
        g = torch.sigmoid(g) if self.defect == "tanh" else torch.tanh(g)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * g
        return torch.sigmoid(o) * torch.tanh(memory), memory


class Lstm(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.words = nn.Embedding(50, 12)
        self.cell = Cell(12, 16, defect)
        self.norm = nn.LayerNorm(16, eps=1e-2 if defect == "eps" else 1e-5)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.words(tokens)
        state = (x.new_zeros(x.shape[0], 16), x.new_zeros(x.shape[0], 16))
        outputs = []
        for step in range(5):
            state = self.cell(x[:, step], state)
            outputs.append(state[0])
        return self.head(self.norm(torch.stack(outputs, 1)))


def build(defect):
    """The model, with `defect` or None."""
    return Lstm(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.cell.inputs.weight.data[:9].mul_(1.5)
    if defect == "table":
        model.words.weight.data.mul_(1.1)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).reshape(-1, 50), batch["y"][:, :5].reshape(-1))
