"""Mapping files as msprobe's users have them: those that its runs in C_cross were made with, and documented forms."""

API_MATMUL = """\
- ms_api: Primitive.matmul
  pt_api: Functional.linear
  ms_args: [0, 1]
  pt_args: [0, 1]
  ms_outputs: [0]
  pt_outputs: [0]
"""
"""C_cross/api_mapping.yaml"""

API_CODE_KEYS = """\
- ms_api: Functional.gelu
  pt_api: Functional.gelu
  ms_args: [0]
  pt_args: [0]
  ms_output: [0]
  pt_output: [0]
"""
"""C_cross/api_mapping_codekeys.yaml: the spelling that msprobe's code reads"""

API_DOCUMENTED = API_CODE_KEYS.replace("_output:", "_outputs:")
"""C_cross/api_mapping_documented.yaml: the spelling that its documents print, and its code dies of"""

API_ONE_MAPPING = """\
ms_api: Functional.flash_attention_score     # first two segments
pt_api: NPU.npu_fusion_attention
ms_args: [0, 1, 2]
pt_args: [0, 1, 2]
ms_output: [0, 1]
pt_output: [0, 1]
ms_parameters: [gamma, beta]
pt_parameters: [weight, bias]
ms_parameters_grad: [gamma]
pt_parameters_grad: [weight]
"""
"""Not a list: as documents show it, and msprobe's code dies of"""

CELL = """\
# {cell_name}.{class}: {module_name}.{class}; and one by substring
head.Dense: head.Linear
q_proj.Dense: q_proj.Linear
k_proj.Dense: k_proj.Linear
v_proj.Dense: v_proj.Linear
out_proj.Dense: out_proj.Linear
fc1.Dense: fc1.Linear
fc2.Dense: fc2.Linear
"""
"""C_cross/cell_mapping.yaml"""

_DATA_CELLS = [
    f"layers.{layer}.{cell}"
    for layer in (0, 1)
    for cell in ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj", "mlp.fc1", "mlp.fc2")
]
DATA_PAIRS = tuple(
    (f"Cell.{cell}.Dense.forward.0.{slot}", f"Module.{cell}.Linear.forward.0.{slot}")
    for cell in [*_DATA_CELLS, "head"]
    for slot in ("input.0", "output.0", "parameters.weight")
)
DATA = "".join(f"{target}: {golden}\n" for target, golden in DATA_PAIRS)
"""C_cross/data_mapping.yaml, all 39 lines"""

LAYER = """\
TopLayer:
  Cell: Module
Attention:
  q_proj: q_proj
"""
"""C_cross/layer_mapping.yaml"""

LAYER_DOCUMENTED = """\
TopLayer:            # or legacy key "Cell"
  network_with_loss: module
ParallelTransformer:
  layers.attention: layers.self_attn      # multi-segment source allowed
"""
