"""A tagger with a conditional random field: bags of pieces, cells of an LSTM that masks hold still, all paths of tags
summed up; a second task with a focal loss, weighed by learned uncertainties. Layers are computed again backwards.

What a user changes: the mode of a bag, padding, a mask, transitions in the other direction, the first and last tag, a
transition that is forbidden, a path that is counted twice, the exponent of a focal loss, how tasks are weighed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside, within
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

WORDS, PIECES, BAG, TAGS, CLASSES, BATCH, LENGTH, WIDTH, HIDDEN = 50, 40, 4, 6, 3, 4, 9, 24, 20


class Direction(nn.Module):
    """An LSTM of cells; where a sentence has ended its state stays."""

    holds, forget = True, 1.0

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(2 * WIDTH, HIDDEN)
        with torch.no_grad():
            self.cell.bias_ih[HIDDEN : 2 * HIDDEN].fill_(self.forget)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, order: list[int]) -> torch.Tensor:
        hidden = cell = x.new_zeros(BATCH, HIDDEN)
        outputs: list[Any] = [None] * LENGTH
        for place in order:
            new_hidden, new_cell = self.cell(x[:, place], (hidden, cell))
            if self.holds:
                here = mask[:, place, None]
                new_hidden = torch.where(here, new_hidden, hidden)
                new_cell = torch.where(here, new_cell, cell)
            hidden, cell = new_hidden, new_cell
            outputs[place] = hidden
        return torch.stack(outputs, 1)


class Field(nn.Module):
    """How unlikely a path of tags is among all paths."""

    is_turned, has_end, is_max, mask_shift = False, True, False, 0

    def __init__(self) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(TAGS, TAGS) * 0.3)
        self.start, self.end = nn.Parameter(torch.randn(TAGS) * 0.3), nn.Parameter(torch.randn(TAGS) * 0.3)
        forbidden = torch.zeros(TAGS, TAGS, dtype=torch.bool)
        forbidden[0, 3] = forbidden[2, 5] = True
        self.register_buffer("forbidden", forbidden)

    def forward(self, scores: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        transitions = self.transitions.masked_fill(self.forbidden, -10000.0)
        return (self.all_paths(scores, mask, transitions) - self.path(scores, tags, mask, transitions)).sum()

    def path(
        self, scores: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor, transitions: torch.Tensor
    ) -> torch.Tensor:
        """The score of one path."""
        said = scores.gather(2, tags.unsqueeze(2)).squeeze(2)
        score = self.start[tags[:, 0]] + said[:, 0]
        for now in range(1, LENGTH):
            step = transitions[tags[:, now - 1], tags[:, now]] + said[:, now]
            score = score + step * mask[:, now]
        last = tags.gather(1, mask.long().sum(1, keepdim=True) - 1).squeeze(1)
        return score + self.end[last] if self.has_end else score

    def all_paths(self, scores: torch.Tensor, mask: torch.Tensor, transitions: torch.Tensor) -> torch.Tensor:
        """The logarithm of the summed exponentials of all paths' scores."""
        if self.is_turned:
            transitions = transitions.t()
        total = self.start + scores[:, 0]
        for now in range(1, LENGTH):
            step = total.unsqueeze(2) + transitions.unsqueeze(0) + scores[:, now].unsqueeze(1)
            summed = step.amax(1) if self.is_max else torch.logsumexp(step, dim=1)
            total = torch.where(mask[:, now - self.mask_shift].unsqueeze(1), summed, total)
        return torch.logsumexp(total + self.end if self.has_end else total, dim=1)


class Tagger(nn.Module):
    """Tags of words and a class of sentences, two tasks that are weighed."""

    exponent, alpha, has_logarithm, by_tokens, is_checkpointed = 2.0, 0.25, True, True, True

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.pieces = nn.EmbeddingBag(PIECES, WIDTH, mode="mean", padding_idx=0)
        self.dropout = nn.Dropout(0.2)
        self.forwards, self.backwards = Direction(), Direction()
        self.middle = nn.Sequential(nn.Linear(2 * HIDDEN, WIDTH), nn.Tanh(), nn.LayerNorm(WIDTH))
        self.scores, self.kinds = nn.Linear(WIDTH, TAGS), nn.Linear(WIDTH, CLASSES)
        self.field = Field()
        self.uncertainty = nn.Parameter(torch.tensor([0.1, -0.2]))

    def forward(
        self, words: torch.Tensor, pieces: torch.Tensor, tags: torch.Tensor, kinds: torch.Tensor
    ) -> torch.Tensor:
        mask = words.ne(0)
        bags = self.pieces(pieces.view(-1, BAG)).view(BATCH, LENGTH, WIDTH)
        x = self.dropout(torch.cat([self.words(words), bags], -1))
        order = list(range(LENGTH))
        both = torch.cat([self.forwards(x, mask, order), self.backwards(x, mask, order[::-1])], -1)
        hidden = checkpoint(self.middle, both, use_reentrant=False) if self.is_checkpointed else self.middle(both)
        tagging = self.field(self.scores(hidden), tags, mask)
        tagging = tagging / (mask.sum() if self.by_tokens else BATCH)
        pooled = hidden.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(1).values
        focal = self.focal(self.kinds(pooled), kinds)
        losses = torch.stack([tagging, focal])
        weighed = torch.exp(-self.uncertainty) * losses
        return (weighed + self.uncertainty).sum() if self.has_logarithm else weighed.sum()

    def focal(self, scores: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """A cross entropy in which what is sure counts less."""
        logs = functional.log_softmax(scores, dim=-1)
        log = logs.gather(1, kinds.unsqueeze(1)).squeeze(1)
        return (-self.alpha * (1 - log.exp()) ** self.exponent * log).mean()


def build() -> Training:
    generator = torch.Generator().manual_seed(137)
    batches: list[Batch] = []
    for _ in range(2):
        words = torch.randint(1, WORDS, (BATCH, LENGTH), generator=generator)
        for nth, ending in enumerate((LENGTH, 7, 6, 4)):
            words[nth, ending:] = 0
        pieces = torch.randint(0, PIECES, (BATCH, LENGTH, BAG), generator=generator)
        batches.append(
            {
                "words": words,
                "pieces": pieces * words.ne(0).unsqueeze(-1),
                "tags": torch.randint(0, 2, (BATCH, LENGTH), generator=generator),
                "kinds": torch.randint(0, CLASSES, (BATCH,), generator=generator),
            }
        )
    settings = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "foreach": False}
    return Training(Tagger(), batches, optimizer=torch.optim.SGD, settings=settings, clip=1.0)


def _sum_mode(training: Training) -> None:
    training.module("pieces").mode = "sum"


def _unpadded(training: Training) -> None:
    training.module("pieces").padding_idx = None


def _allowed(training: Training) -> None:
    training.module("field").forbidden[2, 5] = False


def _other_tag(batch: Batch) -> None:
    batch["tags"][1, 2] = 1 - batch["tags"][1, 2]


def _other_kind(batch: Batch) -> None:
    batch["kinds"][0] = (batch["kinds"][0] + 1) % CLASSES


def _longer(batch: Batch) -> None:
    batch["words"][3, 4] = 7


def _norm_first(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: torch.tanh(module[2](module[0](x)))


PATHS = "__add__|add|logsumexp|where|gather"

DEFECTS = (
    Defect("sum_mode", "argument", inside("pieces", "embedding_bag"), _sum_mode),
    Defect("unpadded", "argument", inside("pieces", "embedding_bag"), _unpadded),
    defects.setting("not_held", "backwards", "holds", False, "where|lstm_cell"),
    defects.setting("turned", "field", "is_turned", True, "__add__|add|t"),
    defects.setting("no_end", "field", "has_end", False, "logsumexp|__add__|add|gather"),
    defects.setting("maximum", "field", "is_max", True, "amax|logsumexp"),
    defects.setting("late_mask", "field", "mask_shift", 1, "where"),
    Defect("allowed", "weights", within("field", "masked_fill"), _allowed),
    defects.of_network("exponent", "argument", call("__pow__|pow"), exponent=1.0),
    defects.of_network("alpha", "argument", call("__mul__|__rmul__|mul"), alpha=0.5),
    defects.of_network("no_logarithm", "op", call("__add__|add|sum"), has_logarithm=False),
    defects.of_network("by_sentences", "argument", call("sum|__truediv__|div"), by_tokens=False),
    defects.setting("dropout", "dropout", "p", 0.1, "dropout"),
    defects.changed_forward("norm_first", "wiring", "middle", _norm_first, within("middle", "tanh|layer_norm")),
    defects.lower_precision("low_scores", "scores", "linear"),
    defects.changed_weight("other_gates", "forwards.cell", "lstm_cell", defects.permuted, "weight_ih"),
    defects.changed_weight("no_forget", "backwards.cell", "lstm_cell", torch.zeros_like, "bias_ih"),
    defects.changed_weight("one_transition", "field", "masked_fill", defects.one_element, "transitions"),
    defects.changed_weight("one_weight", "middle.0", "linear", defects.one_element),
    defects.changed_weight("start", "field", "__getitem__|__add__|add", lambda start: start.flip(0), "start"),
    defects.frozen("frozen", "middle.2", "layer_norm"),
    defects.other_data("tag", within("field", PATHS), _other_tag),
    defects.other_data("kind", call("gather"), _other_kind, 1),
    defects.other_data("longer", call("ne|__ne__") + inside("words", "embedding"), _longer),
    defects.optimizer("nesterov", r"add|add_|mul_", nesterov=False),
    defects.optimizer("momentum", r"add|mul_|add_", momentum=0.8),
    defects.no_clipping(),
    defects.faulty_kernel("bag", inside("pieces", "embedding_bag"), ATEN._embedding_bag, 0, one_element_wrong),
    defects.faulty_kernel("norm", inside("middle.2", "layer_norm"), ATEN.native_layer_norm, 0, scaled(1.002)),
    defects.faulty_kernel("log", within("field", "logsumexp"), ATEN.logsumexp, 3, one_element_wrong),
)

MODEL = Model(build, DEFECTS)
