"""Writes the .pt fixtures beside this file. Run by hand with a Python that has torch; the tests need none.

Every NAME.pt that can be read has a NAME.npy with the values it must give (float32 where numpy lacks the
dtype); `bad_*.pt` must be refused.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
NUMPY_LACKS = {torch.bfloat16, *(getattr(torch, name) for name in dir(torch) if name.startswith("float8_"))}
DTYPES = [
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


def save(name: str, tensor: torch.Tensor) -> None:
    torch.save(tensor, HERE / f"{name}.pt")
    plain = tensor.detach()
    values = plain.float() if plain.dtype in NUMPY_LACKS else plain
    np.save(HERE / f"{name}.npy", values.contiguous().numpy())


def main() -> None:
    torch.manual_seed(0)
    base = torch.randn(3, 4) * 8
    for name in DTYPES:
        save(f"dtype_{name}", base.abs().to(getattr(torch, name)))
    grid = torch.arange(120, dtype=torch.float32).reshape(4, 5, 6)
    save("transposed", grid.transpose(0, 2))
    save("offset", grid[1:3, 2:, 1:4])
    save("offset_float8", torch.arange(24, dtype=torch.float32).reshape(4, 6).to(torch.float8_e5m2)[1:, 2:])
    save("stepped", grid[:, ::2, ::3])
    save("expanded", torch.tensor([[1.0], [2.0]]).expand(2, 5))
    save("scalar", torch.tensor(2.5))
    save("empty", torch.empty(0, 3))
    save("parameter", torch.nn.Parameter(base))
    save("requires_grad", base.clone().requires_grad_())
    attributed = base.clone()
    attributed.note = "hello"
    save("attributed", attributed)

    complex_base = torch.randn(3, dtype=torch.complex64)
    torch.save(complex_base.conj(), HERE / "bad_conj.pt")
    torch.save(complex_base.conj().imag, HERE / "bad_neg.pt")
    torch.save({"weight": base}, HERE / "bad_dict.pt")
    torch.save(OrderedDict(weight=base), HERE / "bad_state_dict.pt")
    torch.save([base, base], HERE / "bad_list.pt")
    torch.save(3.0, HERE / "bad_number.pt")
    torch.save(base.to_sparse(), HERE / "bad_sparse.pt")
    torch.save(torch.quantize_per_tensor(base, 0.1, 0, torch.qint8), HERE / "bad_quantized.pt")
    torch.save(torch.nested.nested_tensor([base[0], base[1, :2]]), HERE / "bad_nested.pt")
    torch.save(base.to(torch.complex32), HERE / "bad_complex32.pt")
    torch.save(torch.nn.Linear(2, 2), HERE / "bad_module.pt")
    torch.save(base, HERE / "bad_legacy.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
