"""A generator and its discriminator in PyTorch, as modules in nn.Sequential, with the losses of both in one step."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"generate\.1|batch_norm\.0\.",
    "slope": r"judge\.[13]|leaky_relu|relu",
    "tanh": r"generate\.|tanh|sigmoid",
    "weight": r"generate\.6|conv_transpose2d\.2\.",
    "smooth": r"binary_cross_entropy|__rmul__|__mul__|full|ones|mul",
}


class Both(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.generate = nn.Sequential(
            nn.ConvTranspose2d(24, 32, 4, 1, 0, bias=False),
            nn.BatchNorm2d(32, eps=1e-2 if defect == "eps" else 1e-5),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1),
            nn.Sigmoid() if defect == "tanh" else nn.Tanh(),
        )
        self.judge = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, 2, 1),
            nn.LeakyReLU(0.25 if defect == "slope" else 0.2),
            nn.Flatten(),
            nn.Linear(512, 1),
        )

    def forward(self, real, noise):
        fake = self.generate(noise)
        return self.judge(real), self.judge(fake.detach()), self.judge(fake)


def build(defect):
    """The model, with `defect` or None."""
    model = Both(defect)
    model.defect = defect
    return model


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.generate[6].weight.data[3].mul_(1.5)


def loss(model, batch):
    """What the discriminator loses on real and false images, and the generator on its own."""
    noise = batch["x"][:, :, :2, :4].reshape(4, 24, 1, 1)
    real, fake, fooled = model(batch["x"], noise)
    wanted = torch.ones_like(real) * (0.8 if model.defect == "smooth" else 0.9)
    judged = functional.binary_cross_entropy_with_logits(real, wanted)
    judged = judged + functional.binary_cross_entropy_with_logits(fake, torch.zeros_like(fake))
    return judged + functional.binary_cross_entropy_with_logits(fooled, torch.ones_like(fooled))
