"""An actor and its critic (PPO): a normal and a categorical action, clipped ratios, entropy; two networks; RMSprop."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Categorical, Normal

from benchmarks.truth import defects
from benchmarks.truth.defects import call, inside
from benchmarks.truth.noise import ATEN, one_element_wrong, scaled
from benchmarks.truth.planted import Defect, Model
from benchmarks.truth.training import Batch, Training

SEEN, ACTIONS, MOVES, BATCH = 10, 5, 3, 32


class ActorCritic(nn.Module):
    """What was seen to the loss of what was done."""

    clipped, entropy_weight, value_weight, discount, trace = 0.2, 0.01, 0.5, 0.99, 0.95

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SEEN, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.action = nn.Linear(32, ACTIONS)
        self.move = nn.Linear(32, MOVES)
        self.spread = nn.Parameter(torch.zeros(MOVES) - 0.5)
        self.critic = nn.Sequential(nn.Linear(SEEN, 32), nn.ELU(), nn.LayerNorm(32), nn.Linear(32, 1))

    def forward(
        self, seen: torch.Tensor, actions: torch.Tensor, moves: torch.Tensor, before: torch.Tensor,
        rewards: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        values = self.critic(seen).squeeze(-1)
        advantages = self.advantages(rewards, values.detach())
        returns = advantages + values.detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        hidden = self.body(seen)
        action = Categorical(logits=self.action(hidden))
        move = Normal(self.move(hidden), self.spread.exp())
        ratio = torch.exp(action.log_prob(actions) + move.log_prob(moves).sum(-1) - before)
        limited = torch.clamp(ratio, 1 - self.clipped, 1 + self.clipped)
        gain = torch.min(ratio * advantages, limited * advantages).mean()
        entropy = action.entropy().mean() + move.entropy().sum(-1).mean()
        error = (returns - values).pow(2).mean()
        return self.value_weight * error - gain - self.entropy_weight * entropy

    def advantages(self, rewards: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Generalised advantages, backwards in time."""
        found, running = [], torch.zeros(())
        for time in reversed(range(0, BATCH, 4)):
            later = values[time + 4] if time + 4 < BATCH else torch.zeros(())
            running = rewards[time] + self.discount * later - values[time] + self.discount * self.trace * running
            found.insert(0, running.expand(4))
        return torch.cat(found)


def build() -> Training:
    generator = torch.Generator().manual_seed(5)
    batches = [
        {
            "seen": torch.randn(BATCH, SEEN, generator=generator),
            "actions": torch.randint(0, ACTIONS, (BATCH,), generator=generator),
            "moves": torch.randn(BATCH, MOVES, generator=generator),
            "before": -4 + torch.randn(BATCH, generator=generator),
            "rewards": torch.randn(BATCH, generator=generator),
        }
        for _ in range(2)
    ]
    return Training(
        ActorCritic(), batches, optimizer=torch.optim.RMSprop, clip=0.5,
        settings={"lr": 7e-4, "alpha": 0.99, "eps": 1e-5, "foreach": False},
    )  # fmt: skip


def _set(name: str, value: float) -> object:
    return lambda training: setattr(training.network, name, value)


def _one_action(batch: Batch) -> None:
    batch["actions"][7] = (batch["actions"][7] + 1) % ACTIONS


def _one_reward(batch: Batch) -> None:
    batch["rewards"][8] += 0.1


def _older(batch: Batch) -> None:
    batch["before"][3:9] += 0.5


def _unordered(batch: Batch) -> None:
    """What was seen stands in another order."""
    batch["seen"] = batch["seen"].roll(1, 0)


def _wider(training: Training) -> None:
    with torch.no_grad():
        training.network.spread += 0.01


def _forget_detach(training: Training) -> None:
    """The normalisation of advantages is left out."""
    network = training.network
    usual = network.advantages
    network.advantages = lambda rewards, values: usual(rewards, values) * 1.02


_ARITHMETIC = r"__r?mul__|__r?sub__|__r?add__|__radd__|clamp|sub|mul|add"
DEFECTS = (
    Defect("clipped", "argument", call("clamp|__mul__"), _set("clipped", 0.1)),
    Defect("entropy_weight", "argument", call(_ARITHMETIC), _set("entropy_weight", 0.011)),
    Defect("value_weight", "argument", call(_ARITHMETIC), _set("value_weight", 0.25)),
    Defect("discount", "argument", call(_ARITHMETIC), _set("discount", 0.98)),
    Defect("trace", "argument", call(_ARITHMETIC), _set("trace", 0.9)),
    Defect("scaled_advantages", "op", call(_ARITHMETIC), _forget_detach),
    defects.setting("alpha", "critic.1", "alpha", 0.9, "elu"),
    defects.setting("norm_eps", "critic.2", "eps", 1e-3, "layer_norm"),
    defects.replaced("relu", "body.1", lambda old: nn.ReLU()),
    defects.setting("no_bias", "action", "bias", None, "linear"),
    Defect("wider", "weights", call("exp"), _wider),
    defects.changed_weight("one_element", "move", "linear", defects.one_element),
    defects.changed_weight("flipped", "body.2", "linear", defects.flipped),
    defects.changed_weight("other_start", "critic.0", "linear", defects.reinitialised),
    defects.frozen("frozen", "body.0", "linear"),
    defects.lower_precision("bf16", "body.2", "linear"),
    defects.other_data("action", call(r"gather|log_prob|unsqueeze|expand|broadcast_tensors|long|__mod__|__ge__"),
                       _one_action),
    defects.other_data("reward", call(_ARITHMETIC + "|__getitem__"), _one_reward),
    defects.other_data("older", call("__sub__|sub"), _older, batch=1),
    defects.other_data("unordered", (*inside("critic.0", "linear"), *inside("body.0", "linear"), *call("__r?sub__")),
                       _unordered),
    defects.optimizer("alpha", "mul_|addcmul_", alpha=0.98),
    defects.optimizer("eps", "add_", eps=1e-4),
    defects.no_clipping(),
    defects.faulty_kernel("tanh_kernel", inside("body.3", "tanh"), ATEN.tanh, 1, scaled(1.001)),
    defects.faulty_kernel("softmax_one_element", call("logsumexp|softmax|log_softmax|__sub__"), ATEN.logsumexp, 0,
                          one_element_wrong),
    defects.faulty_kernel("minimum_backward", call("min|minimum|__r?mul__", "backward"), ATEN.where, 1,
                          scaled(1.01)),
)  # fmt: skip


MODEL = Model(build, DEFECTS)
