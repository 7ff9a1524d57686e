"""A recurrent translator in PyTorch: nn.GRU, additive attention, a GRUCell that is fed the truth."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "tanh": r"attention|tanh|sigmoid",
    "mask": r"attention|masked_fill|softmax|__add__\.145\.",
    "context": r"decoder|cat|gru_cell",
    "weight": r"decoder\.cell|gru_cell\.0\.",
    "encoder": r"encoder|gru\.0\.",
}


class Encoder(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.table = nn.Embedding(50, size)
        self.gru = nn.GRU(size, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)

    def forward(self, tokens):
        states, last = self.gru(self.table(tokens))
        return states, torch.tanh(self.bridge(torch.cat((last[0], last[1]), -1)))


class Attention(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(2 * hidden, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def forward(self, state, memory, mask):
        mixed = self.query(state).unsqueeze(1) + self.key(memory)
        mixed = torch.sigmoid(mixed) if self.defect == "tanh" else torch.tanh(mixed)
        energy = self.energy(mixed).squeeze(-1)
        if self.defect != "mask":
            energy = energy.masked_fill(mask == 0, float("-inf"))
        share = functional.softmax(energy, -1)
        return torch.bmm(share.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, size, hidden, defect):
        super().__init__()
        self.defect = defect
        self.table = nn.Embedding(50, size)
        self.attention = Attention(hidden, defect)
        self.cell = nn.GRUCell(size + 2 * hidden, hidden)
        self.out = nn.Linear(3 * hidden + size, 50)

    def forward(self, token, state, memory, mask):
        word = self.table(token)
        context = self.attention(state, memory, mask)
        if self.defect == "context":
            context = context * 1.1
        state = self.cell(torch.cat((word, context), -1), state)
        return self.out(torch.cat((state, context, word), -1)), state


class Translator(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.encoder, self.decoder = Encoder(12, 16), Decoder(12, 16, defect)

    def forward(self, source, wanted, mask):
        memory, state = self.encoder(source)
        scores = []
        for step in range(4):
            each, state = self.decoder(wanted[:, step], state, memory, mask)
            scores.append(each)
        return torch.stack(scores, 1)


def build(defect):
    """The model, with `defect` or None."""
    return Translator(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.decoder.cell.weight_hh.data[:5].mul_(1.5)
    if defect == "encoder":
        model.encoder.gru.weight_ih_l0_reverse.data[3].add_(0.2)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    scores = model(batch["x"], batch["y"], batch["mask"])
    return functional.cross_entropy(scores.flatten(0, 1), batch["y"][:, 1:5].flatten())
